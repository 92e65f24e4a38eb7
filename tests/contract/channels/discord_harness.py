"""Harness of the Discord channel: a bot in direct messages at the fake Discord."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import ClassVar

from choir_common.wire.messages import GatewayBinding
from choir_gateway.channels.discord.factory import DiscordChannelFactory
from choir_gateway.channels.interface import ChannelSecrets, ChannelServices
from choir_testing.discord import FakeDiscord, run_fake_discord
from choir_testing.discord.accounts import FakeMessage
from choir_testing.discord.faults import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    Fault,
    TooManyRequests,
)
from tests.contract.channels.harness import (
    STRANGER,
    USER,
    ChannelHarness,
    Failure,
    ShownMessage,
    until,
)

TOKEN = "contract.discord.token"
SEND = "POST /channels/{channel_id}/messages"
FAULTS: dict[Failure, Fault] = {
    "busy": ErrorResponse(502, 0, "Bad Gateway"),
    "limit": TooManyRequests(1),
    "cut before": DisconnectBefore(),
    "cut after": DisconnectAfter(),
}


class DiscordHarness(ChannelHarness):
    """A bot with one known user."""

    failures: ClassVar[frozenset[Failure]] = frozenset((*FAULTS, "blocked"))

    def __init__(self, discord: FakeDiscord, home: Path) -> None:
        super().__init__(
            GatewayBinding(name="g", type="discord", secret="t", api_url=discord.api_url)
        )
        self._discord = discord
        self._user = discord.user(int(USER), TOKEN)
        self._stranger = discord.user(int(STRANGER), TOKEN)
        self._sent = list[FakeMessage]()
        factory = DiscordChannelFactory(
            ChannelServices(self.control, self.files, self.conversations, home)
        )
        self.channel = factory.make(self.gateway, ChannelSecrets(TOKEN))

    @classmethod
    @contextlib.asynccontextmanager
    async def run(cls, home: Path) -> AsyncIterator["DiscordHarness"]:
        """Run the channel until the block ends."""
        async with run_fake_discord(40.0) as discord:
            harness = cls(discord, home)
            running = asyncio.create_task(harness.channel.run())

            async def is_connected() -> bool:
                state = harness.channel.state()
                return state is not None and not state.detail

            try:
                await until(is_connected)
                yield harness
            finally:
                running.cancel()
                await asyncio.wait([running])

    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        target = self._message(reply_to.message_id) if reply_to else None
        self._sent.append(await self._user.send(text, reply_to=target))
        return str(self._sent[-1].message_id)

    async def send_as_stranger(self, text: str) -> None:
        await self._stranger.send(text)

    async def repeat(self) -> None:
        self._user.repeat(self._sent[-1])

    async def edit(self, message_id: str, text: str) -> None:
        await self._user.edit(self._message(message_id), text)

    async def send_file(self, name: str, content: bytes, text: str) -> None:
        self._sent.append(
            await self._user.send_file(name, content, "application/octet-stream", text)
        )

    async def press(self, shown: ShownMessage, label: str) -> None:
        await self._user.press(self._message(shown.message_id), label)

    async def shown(self) -> list[ShownMessage]:
        return [
            _shown(it) for it in self._user.channel.messages.values() if it.author_id != int(USER)
        ]

    def fail(self, failure: Failure) -> None:
        if failure == "blocked":
            self._user.block_bot()
        else:
            self._discord.script(SEND, FAULTS[failure], token=TOKEN)

    def _message(self, message_id: str) -> FakeMessage:
        return self._user.channel.messages[int(message_id)]


def _shown(message: FakeMessage) -> ShownMessage:
    return ShownMessage(
        str(message.message_id),
        message.text,
        tuple(message.labels()),
        {file.name: file.content for file in message.files} or None,
        str(message.reply_to) if message.reply_to else None,
    )
