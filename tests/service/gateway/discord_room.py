"""A Discord channel in the test's own loop: the fake Discord on one side, control's fakes on the other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from choir_common.wire.activity import Card, DmActivity, Draft, Idle, Typing
from choir_common.wire.attachments import Attachment, AttachmentKind, Button
from choir_common.wire.messages import (
    ChannelTable,
    DeliveryReceipt,
    DmBinding,
    EditTarget,
    GatewayBinding,
    OutboundMessage,
)
from choir_gateway.channels.discord.channel import DiscordChannel, make_discord_channel
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_testing.discord import FakeBot, FakeDiscord, FakeDiscordUser, run_fake_discord
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles

TOKEN = "room.discord.secret"
ALICE = DmBinding(name="alice", gateway="bot", user_id="7", admin=True)
BOB = DmBinding(name="bob", gateway="bot", user_id="8", admin=False)


@dataclass
class DiscordRoom:
    """The channel with its neighbours."""

    discord: FakeDiscord
    control: FakeControlClient
    files: FakeOutboxFiles
    conversations: ConversationDirectory
    directory: Path
    channel: DiscordChannel = field(init=False)
    token: str = TOKEN
    heartbeat_timeout_s: float = 60.0
    pairing: bool = False
    """Whether strangers get a code; read when a channel starts."""
    count: int = 0

    @property
    def bot(self) -> FakeBot:
        return self.discord.bot(TOKEN)

    @property
    def alice(self) -> FakeDiscordUser:
        return self.discord.user(7, TOKEN)

    @property
    def bob(self) -> FakeDiscordUser:
        return self.discord.user(8, TOKEN)

    def message(
        self,
        text: str,
        *files: tuple[AttachmentKind, str, bytes],
        buttons: tuple[Button, ...] = (),
        edits: EditTarget | None = None,
        reply_to: str | None = None,
    ) -> OutboundMessage:
        """Make a message of an agent for alice, with the files that control has."""
        self.count += 1
        attachments = tuple(
            Attachment(name=name, kind=kind, size=len(content), ref=str(number))
            for number, (kind, name, content) in enumerate(files)
        )
        for number, (_, _, content) in enumerate(files):
            self.files.files[self.count, str(number)] = content
        return OutboundMessage(
            outbox_id=self.count,
            dm="alice",
            gateway="bot",
            agent_id="main",
            session_id="s",
            rev=self.count,
            kind="answer",
            text=text,
            answers=None,
            at=datetime.now(UTC),
            attachments=attachments,
            buttons=buttons,
            edits=edits,
            reply_to=reply_to,
        )

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        return await self.channel.deliver(message, "7")

    def show(self, what: Typing | Idle | Draft | Card) -> None:
        self.channel.show(DmActivity(dm="alice", gateway="bot", what=what), "7")

    async def until_accepted(self, count: int) -> None:
        """Wait until control has stored so many messages."""
        async with asyncio.timeout(60):
            while len(self.control.accepted) < count:
                await asyncio.sleep(0.02)

    async def until_connected(self) -> None:
        """Wait until a session is open."""
        async with asyncio.timeout(60):
            while self.channel.state().detail:
                await asyncio.sleep(0.02)

    async def read(self, ref: str) -> bytes:
        async with self.channel.open_file(ref) as pieces:
            return b"".join([piece async for piece in pieces])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a channel until the block ends; a second one continues like a restarted gateway."""
        self.channel = make_discord_channel(
            GatewayBinding(
                name="bot",
                type="discord",
                secret="t",
                api_url=self.discord.api_url,
                pairing=self.pairing,
            ),
            token=self.token,
            services=ChannelServices(self.control, self.files, self.conversations, self.directory),
            heartbeat_timeout_s=self.heartbeat_timeout_s,
        )
        running = asyncio.create_task(self.channel.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


@contextlib.asynccontextmanager
async def prepared_discord_room(
    directory: Path, heartbeat_s: float = 40.0
) -> AsyncIterator[DiscordRoom]:
    """Prepare a room whose channel does not run yet."""
    async with run_fake_discord(heartbeat_s) as discord:
        for user_id in (7, 8, 9):
            discord.user(user_id, TOKEN)
        table = ChannelTable(config_version=1, gateways=(), dms=(ALICE, BOB))
        control, files = FakeControlClient(table), FakeOutboxFiles()
        conversations = ConversationDirectory()
        conversations.replace(table.dms)
        yield DiscordRoom(discord, control, files, conversations, directory)


@contextlib.asynccontextmanager
async def opened_discord_room(directory: Path) -> AsyncIterator[DiscordRoom]:
    """Run a channel that is connected until the block ends."""
    async with prepared_discord_room(directory) as room:
        async with room.running():
            await room.until_connected()
            yield room
