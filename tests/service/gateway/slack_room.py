"""A Slack channel in the test's own loop: the fake Slack on one side, control's fakes on the other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
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
)
from choir_gateway.channels.interface import ChannelServices, ConversationDirectory
from choir_gateway.channels.slack.channel import SlackChannel, make_slack_channel
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.slack import FakeApp, FakeMessage, FakeSlack, FakeSlackUser, run_fake_slack

BOT_TOKEN, APP_TOKEN = "xoxb-room-secret", "xapp-room-secret"
ALICE = DmBinding(name="alice", gateway="bot", user_id="U7", admin=True)
BOB = DmBinding(name="bob", gateway="bot", user_id="U8", admin=False)
COMMANDS = (ChannelCommand(name="/status", summary="the state", admin=False),)


@dataclass
class SlackRoom:
    """The channel with its neighbours."""

    slack: FakeSlack
    control: FakeControlClient
    files: FakeOutboxFiles
    conversations: ConversationDirectory
    directory: Path
    channel: SlackChannel = field(init=False)
    bot_token: str = BOT_TOKEN
    app_token: str = APP_TOKEN
    heartbeat_s: float = 20.0
    acknowledgement: AcknowledgementEmoji | None = None
    pairing: bool = False
    """Whether strangers get a code; read when a channel starts."""
    count: int = 0

    @property
    def app(self) -> FakeApp:
        return self.slack.app

    @property
    def alice(self) -> FakeSlackUser:
        return self.slack.user("U7")

    @property
    def bob(self) -> FakeSlackUser:
        return self.slack.user("U8")

    def message(
        self,
        text: str,
        *files: tuple[AttachmentKind, str, bytes],
        buttons: tuple[Button, ...] = (),
        edits: EditTarget | None = None,
        reply_to: str | None = None,
        answers: str | None = None,
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
            answers=answers,
            at=datetime.now(UTC),
            attachments=attachments,
            buttons=buttons,
            edits=edits,
            reply_to=reply_to,
        )

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        return await self.channel.deliver(message, "U7")

    def show(self, what: Typing | Idle | Draft | Card) -> None:
        self.channel.show(DmActivity(dm="alice", gateway="bot", what=what), "U7")

    async def until_accepted(self, count: int) -> None:
        """Wait until control has stored so many messages."""
        async with asyncio.timeout(60):
            while len(self.control.accepted) < count:
                await asyncio.sleep(0.02)

    async def until_marked(self, message: FakeMessage) -> None:
        """Wait until the read mark with a message and its last edit is on disk."""
        path = self.directory / "bot.json"
        wanted = f'"{message.ts}":{{"edited":"{message.edited_ts or ""}"'
        async with asyncio.timeout(60):
            while not path.exists() or wanted not in path.read_text():
                await asyncio.sleep(0.02)

    async def until_connected(self) -> None:
        """Wait until a connection is open."""
        await self.until_state("")

    async def until_state(self, words: str) -> None:
        """Wait until the state's detail contains these words; empty: until there is no detail."""
        async with asyncio.timeout(60):
            while words not in self.channel.state().detail or (
                not words and self.channel.state().detail
            ):
                await asyncio.sleep(0.02)

    async def until_opened(self, count: int) -> None:
        """Wait until the app has opened so many connections."""
        async with asyncio.timeout(60):
            while self.app.sockets.opened < count:
                await asyncio.sleep(0.02)

    async def until_histories_read(self, count: int) -> None:
        """Wait until histories were read so often: then every message comes as an event."""
        async with asyncio.timeout(60):
            while self.app.count_calls("conversations.history") < count:
                await asyncio.sleep(0.02)

    async def read(self, ref: str) -> bytes:
        async with self.channel.open_file(ref) as pieces:
            return b"".join([piece async for piece in pieces])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a channel until the block ends; a second one continues like a restarted gateway."""
        self.channel = make_slack_channel(
            GatewayBinding(
                name="bot",
                type="slack",
                secret="t",
                app_secret="a",
                api_url=self.slack.api_url,
                acknowledgement=self.acknowledgement,
                pairing=self.pairing,
            ),
            bot_token=self.bot_token,
            app_token=self.app_token,
            services=ChannelServices(self.control, self.files, self.conversations, self.directory),
            heartbeat_s=self.heartbeat_s,
        )
        running = asyncio.create_task(self.channel.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


@contextlib.asynccontextmanager
async def prepared_slack_room(
    directory: Path, groups: tuple[DmBinding, ...] = ()
) -> AsyncIterator[SlackRoom]:
    """Prepare a room whose channel does not run yet."""
    async with run_fake_slack(BOT_TOKEN, APP_TOKEN) as slack:
        for user_id in ("U7", "U8", "U9"):
            slack.user(user_id)
        table = ChannelTable(config_version=1, gateways=(), dms=(ALICE, BOB, *groups))
        control, files = FakeControlClient(table), FakeOutboxFiles()
        conversations = ConversationDirectory()
        conversations.replace(table.dms, COMMANDS)
        yield SlackRoom(slack, control, files, conversations, directory)


@contextlib.asynccontextmanager
async def opened_slack_room(directory: Path) -> AsyncIterator[SlackRoom]:
    """Run a channel that is connected until the block ends."""
    async with prepared_slack_room(directory) as room:
        async with room.running():
            await room.until_connected()
            # For two users: the present end, and what is after it.
            await room.until_histories_read(4)
            yield room
