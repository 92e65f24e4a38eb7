"""A Matrix channel in the test's own loop: the fake homeserver on one side, control's fakes on the other."""

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
from choir_gateway.channels.matrix.channel import MatrixChannel, make_matrix_channel
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.matrix import FakeAccount, FakeMatrix, FakeMatrixUser, run_fake_matrix

TOKEN = "room_matrix_secret"
ALICE = DmBinding(name="alice", gateway="bot", user_id="@alice:example.org", admin=True)
BOB = DmBinding(name="bob", gateway="bot", user_id="@bob:example.org", admin=False)
COMMANDS = (ChannelCommand(name="/status", summary="Show it.", admin=False),)


@dataclass
class MatrixRoom:
    """The channel with its neighbours."""

    matrix: FakeMatrix
    control: FakeControlClient
    files: FakeOutboxFiles
    conversations: ConversationDirectory
    directory: Path
    channel: MatrixChannel = field(init=False)
    token: str = TOKEN
    acknowledgement: AcknowledgementEmoji | None = None
    pairing: bool = False
    count: int = 0

    @property
    def bot(self) -> FakeAccount:
        return self.matrix.bot(self.token)

    @property
    def alice(self) -> FakeMatrixUser:
        return self.matrix.user("alice", TOKEN)

    @property
    def bob(self) -> FakeMatrixUser:
        return self.matrix.user("bob", TOKEN)

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
        return await self.channel.deliver(message, ALICE.user_id)

    def show(self, what: Typing | Idle | Draft | Card) -> None:
        activity = DmActivity(dm="alice", gateway="bot", what=what)
        self.channel.show(activity, ALICE.user_id)

    async def until_accepted(self, count: int) -> None:
        """Wait until control has stored so many messages."""
        async with asyncio.timeout(60):
            while len(self.control.accepted) < count:
                await asyncio.sleep(0.02)

    async def until_pressed(self, count: int) -> None:
        """Wait until control has so many presses."""
        async with asyncio.timeout(60):
            while len(self.control.pressed) < count:
                await asyncio.sleep(0.02)

    async def until_connected(self) -> None:
        """Wait until the first batch was read."""
        async with asyncio.timeout(60):
            while self.channel.state().detail:
                await asyncio.sleep(0.02)

    async def read(self, ref: str) -> bytes:
        async with self.channel.open_file(ref) as pieces:
            return b"".join([piece async for piece in pieces])

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run a channel until the block ends; a second one continues like a restarted gateway."""
        self.channel = make_matrix_channel(
            GatewayBinding(
                name="bot",
                type="matrix",
                secret="t",
                api_url=self.matrix.api_url,
                acknowledgement=self.acknowledgement,
                pairing=self.pairing,
            ),
            homeserver=self.matrix.api_url,
            token=self.token,
            services=ChannelServices(self.control, self.files, self.conversations, self.directory),
            edit_s=0.2,
        )
        running = asyncio.create_task(self.channel.run())
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


@contextlib.asynccontextmanager
async def prepared_matrix_room(directory: Path) -> AsyncIterator[MatrixRoom]:
    """Prepare a room whose channel does not run yet."""
    async with run_fake_matrix() as matrix:
        matrix.bot(TOKEN)
        table = ChannelTable(config_version=1, gateways=(), dms=(ALICE, BOB))
        control, files = FakeControlClient(table), FakeOutboxFiles()
        conversations = ConversationDirectory()
        conversations.replace(table.dms, COMMANDS)
        yield MatrixRoom(matrix, control, files, conversations, directory)


@contextlib.asynccontextmanager
async def opened_matrix_room(
    directory: Path, acknowledgement: AcknowledgementEmoji | None = None
) -> AsyncIterator[MatrixRoom]:
    """Run a channel that is in a room with alice until the block ends."""
    async with prepared_matrix_room(directory) as room:
        room.acknowledgement = acknowledgement
        async with room.running():
            await room.alice.start_joined_room()
            await room.until_connected()
            yield room
