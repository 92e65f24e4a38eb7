"""A Telegram channel in the test's own loop: the fake Bot API on one side, control's fakes on the other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from choir_common.wire.activity import Card, DmActivity, Draft, Idle, Typing
from choir_common.wire.attachments import Attachment, AttachmentKind, Button
from choir_common.wire.channel_types import AcknowledgementEmoji
from choir_common.wire.messages import (
    ChannelCommand,
    ChannelTable,
    DeliveryReceipt,
    DmBinding,
    EditTarget,
    GatewayBinding,
    OutboundMessage,
    WebhookBinding,
)
from choir_gateway.channels.interface import (
    Channel,
    ChannelSecrets,
    ChannelServices,
    ConversationDirectory,
)
from choir_gateway.channels.telegram.factory import TelegramChannelFactory
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.telegram import FakeTelegram, FakeUser, run_fake_telegram

TOKEN = "111:room-secret"
HOOK_SECRET = "hook-secret_1"
ALICE = DmBinding(name="alice", gateway="bot", user_id="7", admin=True)
BOB = DmBinding(name="bob", gateway="bot", user_id="8", admin=False)
COMMANDS = (
    ChannelCommand(name="/status", summary="Show it.", admin=False),
    ChannelCommand(name="/update-all", summary="Update all.", admin=True),
)


@dataclass
class Room:
    """The channel with its neighbours."""

    telegram: FakeTelegram
    control: FakeControlClient
    files: FakeOutboxFiles
    channel: Channel
    count: int = 0

    @property
    def alice(self) -> FakeUser:
        return self.telegram.user(7, TOKEN)

    @property
    def bob(self) -> FakeUser:
        return self.telegram.user(8, TOKEN)

    def message(
        self,
        text: str,
        *files: tuple[AttachmentKind, str, bytes],
        buttons: tuple[Button, ...] = (),
        edits: EditTarget | None = None,
        reply_to: str | None = None,
    ) -> OutboundMessage:
        """Make words of an agent for alice, with the bytes of its files where they can be had."""
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


@contextlib.asynccontextmanager
async def opened_room(
    webhook: str | None = None,
    acknowledgement: AcknowledgementEmoji | None = None,
    groups: tuple[DmBinding, ...] = (),
) -> AsyncIterator[Room]:
    """Run a channel until the block ends; `webhook` is where Telegram brings updates."""
    async with run_fake_telegram() as telegram:
        for user_id in (7, 8):
            telegram.user(user_id, TOKEN)
        hook = WebhookBinding(url=webhook, secret="hook") if webhook else None
        gateway = GatewayBinding(
            name="bot",
            type="telegram",
            secret="t",
            api_url=telegram.api_url,
            webhook=hook,
            acknowledgement=acknowledgement,
        )
        table = ChannelTable(config_version=1, gateways=(gateway,), dms=(ALICE, BOB, *groups))
        control, files = FakeControlClient(table), FakeOutboxFiles()
        conversations = ConversationDirectory()
        conversations.replace(table.dms, COMMANDS)
        secrets = ChannelSecrets(TOKEN, HOOK_SECRET if webhook else None)
        services = ChannelServices(control, files, conversations, Path())
        channel = TelegramChannelFactory(services).make(gateway, secrets)
        running = asyncio.create_task(channel.run())
        try:
            yield Room(telegram, control, files, channel)
        finally:
            running.cancel()
            await asyncio.wait([running])
