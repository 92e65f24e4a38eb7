"""Harness of the Matrix channel: a bot in a direct room at the fake homeserver."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.choices import HINT
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.matrix.factory import MatrixChannelFactory
from choir_testing.matrix import FakeEvent, FakeMatrix, ShownEvent, run_fake_matrix
from choir_testing.matrix.faults import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    TooManyRequests,
)
from choir_testing.matrix.server import SEND
from tests.contract.channels.harness import ChannelHarness, Failure, ShownMessage

TOKEN = "contract_matrix_token"
FAULTS: dict[Failure, Fault] = {
    "busy": ErrorResponse(502),
    "limit": TooManyRequests(1000),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}
CHOICE = re.compile(r"^(\d+): (\w+)(?: (\S+))?$", re.MULTILINE)


class MatrixHarness(ChannelHarness):
    """A bot with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))
    user_id: ClassVar[str] = "@alice:example.org"
    stranger_id: ClassVar[str] = "@mallory:example.org"

    def __init__(self, matrix: FakeMatrix, home: Path) -> None:
        super().__init__(
            GatewayBinding(name="g", type="matrix", secret="t", api_url=matrix.api_url)
        )
        self._matrix = matrix
        self._user = matrix.user("alice", TOKEN)
        self._stranger = matrix.user("mallory", TOKEN)
        self._sent = list[FakeEvent]()
        factory = MatrixChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home)
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(TOKEN))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["MatrixHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_matrix() as matrix:
            harness = cls(matrix, home)
            running = asyncio.create_task(harness.channel.run())
            try:
                await harness._user.start_joined_room()
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        target = reply_to.message_id if reply_to else None
        self._sent.append(self._user.send(text, reply_to=target))
        return self._sent[-1].event_id

    async def send_as_stranger(self, text: str) -> None:
        room = self._stranger.start_room()
        self._stranger.send(text, room=room)

    async def repeat(self) -> None:
        self._user.repeat(self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        self._user.edit(message_id, text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        self._user.send_file(name, content, "application/octet-stream", caption=text)

    async def press(self, shown: ShownMessage, label: str) -> None:
        event = next(it for it in self._user.shown() if it.event_id == shown.message_id)
        emoji = next(it[3] for it in CHOICE.finditer(event.body) if it[2] == label)
        self._user.react(shown.message_id, emoji)

    async def shown(self) -> list[ShownMessage]:
        return [_shown(it) for it in self._user.shown()]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self._user.remove_bot()
        else:
            self._matrix.script(SEND, FAULTS[failure], token=TOKEN)


def _shown(event: ShownEvent) -> ShownMessage:
    text = CHOICE.sub("", event.body).replace(HINT, "")
    return ShownMessage(
        event.event_id,
        text.strip() if HINT in event.body else event.body,
        tuple(it[2] for it in CHOICE.finditer(event.body)) if HINT in event.body else (),
        {event.file.name: event.file.content} if event.file else None,
        event.reply_to,
    )
