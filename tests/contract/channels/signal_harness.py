"""Harness of the Signal channel: an account at the fake of signal-cli-rest-api."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from choir_common.wire.channel_config import ExpiringMessages, SignalConfig
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.choices import HINT
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.signal.addresses import SignalMessageId, compact_id
from choir_gateway.channels.signal.factory import SignalChannelFactory
from choir_testing.signal import FakeSignal, run_fake_signal
from choir_testing.signal.accounts import OWN_NUMBER, SignalMessage
from choir_testing.signal.faults import (
    LIMITED,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
)
from tests.contract.channels.harness import ChannelHarness, Failure, ShownMessage, until

USER_NUMBER = "+4915112345678"
USER_ID, STRANGER_ID = (
    "a1a1a1a1-0000-4000-8000-000000000007",
    "a1a1a1a1-0000-4000-8000-000000000009",
)
FAULTS: dict[Failure, Fault] = {
    "busy": ErrorResponse(503),
    "limit": ErrorResponse(429, LIMITED),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}
CHOICE = re.compile(r"^(\d+): (\w+)(?: (\S+))?$", re.MULTILINE)


class SignalHarness(ChannelHarness):
    """An account with one known user, who is configured by phone number."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))
    user_id: ClassVar[str] = USER_NUMBER
    stranger_id: ClassVar[str] = STRANGER_ID.replace("-", "")

    def __init__(
        self,
        signal: FakeSignal,
        home: Path,
        *,
        emoji: AcknowledgementEmoji | None = None,
        expiring: ExpiringMessages = "refuse",
        pairing: bool = False,
    ) -> None:
        super().__init__(
            GatewayBinding(
                name="g",
                type="signal",
                secret=None,
                api_url=signal.api_url,
                acknowledgement=emoji,
                signal=SignalConfig(number=OWN_NUMBER, expiring_messages=expiring),
                pairing=pairing,
            )
        )
        self.signal = signal
        self.user = signal.user("Alice", USER_NUMBER, account_id=USER_ID)
        self.stranger = signal.user("Mallory", None, account_id=STRANGER_ID)
        self._sent = list[SignalMessage]()
        factory = SignalChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home)
        )
        self.channel = factory.make(self.gateway, ChannelSecrets())

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["SignalHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_signal() as signal:
            harness = cls(signal, home)
            async with harness.running():
                yield harness

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the channel until the block ends."""
        running = asyncio.create_task(self.channel.run())
        try:
            await until(self.is_connected)
            yield
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        target = self._find(reply_to.message_id) if reply_to else None
        self._sent.append(self.user.send(text, reply_to=target))
        return id_of(self._sent[-1])

    async def send_as_stranger(self, text: str) -> None:
        self.stranger.send(text)

    async def repeat(self) -> None:
        self.user.repeat(self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        self.user.edit(self._find(message_id), text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        self._sent.append(self.user.send_file(name, content, "application/octet-stream", text))

    async def press(self, shown: ShownMessage, label: str) -> None:
        message = self._find(shown.message_id)
        emoji = next(it[3] for it in CHOICE.finditer(message.text) if it[2] == label)
        self.user.react(message, emoji)

    async def shown(self) -> list[ShownMessage]:
        return [self._shown(it) for it in self.user.chat.from_agent()]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self.user.leave()
        else:
            self.signal.script(FAULTS[failure])

    async def is_connected(self) -> bool:
        state = self.channel.state()
        return state is not None and not state.detail

    def _find(self, message_id: str) -> SignalMessage:
        message = self.user.chat.find(int(message_id.partition("/")[0]))
        assert message is not None
        return message

    def _shown(self, message: SignalMessage) -> ShownMessage:
        has_choices = HINT in message.text
        text = CHOICE.sub("", message.text).replace(HINT, "").strip()
        quoted = self.user.chat.find(message.quote[0]) if message.quote else None
        return ShownMessage(
            str(message.timestamp),
            text if has_choices else message.text,
            tuple(it[2] for it in CHOICE.finditer(message.text)) if has_choices else (),
            {message.file.name: message.file.content} if message.file else None,
            id_of(quoted) if quoted else None,
        )


def id_of(message: SignalMessage) -> str:
    """Return the id of a user's message."""
    return str(SignalMessageId(message.timestamp, compact_id(message.author)))
