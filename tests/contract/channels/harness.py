"""What the contract needs of a channel: a fake messenger with one known user, one stranger, and faults."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal

from choir_common.wire.attachments import Attachment, AttachmentKind, Button
from choir_common.wire.messages import (
    ChannelTable,
    DeliveryReceipt,
    DmBinding,
    EditTarget,
    GatewayBinding,
    OutboundMessage,
)
from choir_gateway.channels.interface import Channel, ConversationDirectory
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from tests.support import polling

WITHIN_S = 200.0
USER, STRANGER = "7", "9"
ALICE = DmBinding(name="alice", gateway="g", user_id=USER, admin=True)

Failure = Literal["busy", "limit", "blocked", "cut before", "cut after"]
"""What a messenger does with the next message: refuses it for now (`busy`) or for a second (`limit`), refuses
all to this user (`blocked`), or breaks the connection before or after it showed the message."""


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of an agent on the user's screen."""

    message_id: str
    text: str
    buttons: tuple[str, ...] = ()
    files: Mapping[str, bytes] | None = None
    reply_to: str | None = None


class ChannelHarness(ABC):
    """A running channel, its messenger and its user."""

    failures: ClassVar[frozenset[Failure]]
    """The failures that this messenger knows."""
    user_id: ClassVar[str] = USER
    """The known user, as this messenger names users."""
    stranger_id: ClassVar[str] = STRANGER
    """The unknown user."""
    can_edit: ClassVar[bool] = True
    """Whether messages can be edited; otherwise a correction is a new message."""

    def __init__(self, gateway: GatewayBinding) -> None:
        # With pairing where it exists, so that the contract covers strangers in all of its tests.
        pairing = gateway.channel.has_pairing
        self.gateway = gateway = gateway.model_copy(update={"pairing": pairing})
        alice = ALICE.model_copy(update={"user_id": self.user_id})
        table = ChannelTable(config_version=1, gateways=(gateway,), dms=(alice,))
        self.control, self.files = FakeControlClient(table), FakeOutboxFiles()
        self.conversations = ConversationDirectory()
        self.conversations.replace(table.dms)
        self.channel: Channel
        self._count = 0

    @classmethod
    @abstractmethod
    def run(cls, home: Path) -> AbstractAsyncContextManager["ChannelHarness"]:
        """Run a channel until the block ends."""

    @abstractmethod
    async def send(self, text: str, *, reply_to: ShownMessage | None = None) -> str:
        """Send a message as the user; return the id to which an edit refers."""

    @abstractmethod
    async def send_as_stranger(self, text: str) -> None:
        """Send a message as somebody who is not configured."""

    @abstractmethod
    async def repeat(self) -> None:
        """Deliver the user's last message to the channel again."""

    @abstractmethod
    async def edit(self, message_id: str, text: str) -> None:
        """Edit a message of the user."""

    @abstractmethod
    async def send_file(self, name: str, content: bytes, text: str) -> None:
        """Send a document with a text."""

    @abstractmethod
    async def press(self, shown: ShownMessage, label: str) -> None:
        """Press a button below a message."""

    @abstractmethod
    async def shown(self) -> list[ShownMessage]:
        """Return the agent's messages on the user's screen, in order, with edits applied."""

    @abstractmethod
    def fail(self, failure: Failure) -> None:
        """Let the messenger fail when it gets the next message."""

    def message(
        self,
        text: str,
        *,
        files: Mapping[str, bytes] | None = None,
        kind: AttachmentKind = "document",
        buttons: tuple[Button, ...] = (),
        edits: EditTarget | None = None,
        reply_to: str | None = None,
    ) -> OutboundMessage:
        """Return a message for the user, whose files can be read from control."""
        self._count += 1
        attachments = list[Attachment]()
        for number, (name, content) in enumerate((files or {}).items()):
            self.files.files[self._count, str(number)] = content
            attachments.append(Attachment(name=name, kind=kind, size=len(content), ref=str(number)))
        return OutboundMessage(
            outbox_id=self._count,
            dm=ALICE.name,
            gateway=self.gateway.name,
            agent_id="main",
            session_id="s",
            rev=self._count,
            kind="answer",
            text=text,
            answers=None,
            at=datetime.now(UTC),
            attachments=tuple(attachments),
            buttons=buttons,
            edits=edits,
            reply_to=reply_to,
        )

    async def deliver(self, message: OutboundMessage) -> DeliveryReceipt:
        """Deliver a message to the user, once."""
        self.control.outbox.append(message)
        return await self.channel.deliver(message, self.user_id)

    async def until_accepted(self, count: int) -> None:
        """Wait until control has stored so many messages."""

        async def are_stored() -> bool:
            return len(self.control.accepted) >= count

        await until(are_stored)

    async def until_shown(self, count: int) -> list[ShownMessage]:
        """Wait until the user sees so many messages; return them."""

        async def are_shown() -> bool:
            return len(await self.shown()) >= count

        await until(are_shown)
        return await self.shown()


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a condition is true. Raises TimeoutError."""
    await polling.until(condition, WITHIN_S)
