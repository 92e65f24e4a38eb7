"""Harness of the Telegram channel: a bot at the fake Bot API."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from choir_testing.telegram.accounts import SentMessage
from choir_testing.telegram.faults import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    TooManyRequests,
)
from tests.contract.channels.harness import STRANGER, USER, ChannelHarness, Failure, ShownMessage

TOKEN = "111:token-of-the-contract"
FAULTS: dict[Failure, Fault] = {
    "busy": ErrorResponse(502, "Bad Gateway"),
    "limit": TooManyRequests(1),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}


class TelegramHarness(ChannelHarness):
    """A bot with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))

    def __init__(self, telegram: FakeTelegram) -> None:
        super().__init__(
            GatewayBinding(name="g", type="telegram", secret="t", api_url=telegram.api_url)
        )
        self._telegram = telegram
        self._user = telegram.user(int(USER), TOKEN)
        self._stranger = telegram.user(int(STRANGER), TOKEN)
        self._last_update = 0
        factory = TelegramChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, Path())
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(TOKEN))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["TelegramHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_telegram() as telegram:
            harness = cls(telegram)
            running = asyncio.create_task(harness.channel.run())
            try:
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        if reply_to is None:
            self._last_update = await self._user.send(text)
        else:
            target = self._user.chat.messages[int(reply_to.message_id)]
            self._last_update = await self._user.reply(target, text)
        return str(self._user.last_sent().message_id)

    async def send_as_stranger(self, text: str) -> None:
        await self._stranger.until_confirmed(await self._stranger.send(text))

    async def repeat(self) -> None:
        self._telegram.repeat(self._last_update, TOKEN)

    async def edit(self, message_id: str, text: str) -> None:
        await self._user.edit(self._user.chat.messages[int(message_id)], text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        await self._user.send_file("document", name, content, text)

    async def press(self, shown: ShownMessage, label: str) -> None:
        await self._user.press(self._user.chat.messages[int(shown.message_id)], label)

    async def shown(self) -> list[ShownMessage]:
        messages = self._user.chat.messages.values()
        return [_shown(message) for message in messages if message.from_bot]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self._user.block_bot()
        else:
            self._telegram.script("sendMessage", FAULTS[failure], token=TOKEN)


def _shown(message: SentMessage) -> ShownMessage:
    has_file = message.file_name is not None and message.file_bytes is not None
    return ShownMessage(
        str(message.message_id),
        message.text,
        tuple(button.text for button in message.buttons),
        {message.file_name or "": message.file_bytes or b""} if has_file else None,
        str(message.reply_to) if message.reply_to else None,
    )
