"""Harness of the Slack channel: an app in direct messages at the fake Slack."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.slack.factory import SlackChannelFactory
from choir_testing.slack import FakeSlack, run_fake_slack
from choir_testing.slack.accounts import FakeFile, FakeMessage
from choir_testing.slack.faults import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorCode,
    Fault,
    TooManyRequests,
)
from choir_testing.slack.server import APP_TOKEN, BOT_TOKEN
from tests.contract.channels.harness import (
    STRANGER,
    USER,
    ChannelHarness,
    Failure,
    ShownMessage,
    until,
)

FAULTS: dict[Failure, Fault] = {
    "busy": ErrorCode("service_unavailable"),
    "limit": TooManyRequests(1),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}


class SlackHarness(ChannelHarness):
    """An app with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))

    def __init__(self, slack: FakeSlack, home: Path) -> None:
        super().__init__(
            GatewayBinding(
                name="g", type="slack", secret="t", app_secret="a", api_url=slack.api_url
            )
        )
        self._slack = slack
        self._user, self._stranger = slack.user(USER), slack.user(STRANGER)
        self._sent = list[FakeMessage]()
        factory = SlackChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home)
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(BOT_TOKEN, app=APP_TOKEN))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["SlackHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_slack() as slack:
            harness = cls(slack, home)
            running = asyncio.create_task(harness.channel.run())

            async def is_connected() -> bool:
                state = harness.channel.state()
                # The present end of the history, and what is after it.
                is_read = slack.app.count_calls("conversations.history") >= 2
                return state is not None and not state.detail and is_read

            try:
                await until(is_connected)
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        below = self._message(reply_to.message_id) if reply_to else None
        self._sent.append(await self._user.send(text, below=below))
        return self._sent[-1].ts

    async def send_as_stranger(self, text: str) -> None:
        await self._stranger.send(text)

    async def repeat(self) -> None:
        self._user.repeat(self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        await self._user.edit(self._message(message_id), text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        self._sent.append(await self._user.send_files(FakeFile(name, content), text=text))

    async def press(self, shown: ShownMessage, label: str) -> None:
        await self._user.press(self._message(shown.message_id), label)

    async def shown(self) -> list[ShownMessage]:
        return [_shown(it) for it in self._user.channel.messages.values() if it.author != USER]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self._user.deactivate()
        else:
            self._slack.script("chat.postMessage", FAULTS[failure])

    def _message(self, message_id: str) -> FakeMessage:
        return self._user.channel.messages[message_id]


def _shown(message: FakeMessage) -> ShownMessage:
    return ShownMessage(
        message.ts,
        message.text,
        tuple(message.labels()),
        {file.name: file.content for file in message.files} or None,
        message.thread_ts,
    )
