"""The smallest channel: messages come in by a method call, and deliveries are kept in a list."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime

from choir_common.clients.control import ControlClient
from choir_common.errors import NotFound
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import (
    DeliveryReceipt,
    GatewayBinding,
    InboundAccepted,
    InboundMessage,
    OutboundMessage,
)
from choir_common.wire.operator import ComponentStatus
from choir_gateway.channels.interface import ChannelSecrets, ConversationDirectory


class EchoChannel:
    """Channel of one gateway."""

    def __init__(
        self, name: str, control: ControlClient, conversations: ConversationDirectory
    ) -> None:
        self._name = name
        self._control = control
        self._conversations = conversations
        self.delivered: list[tuple[str, str]] = []
        """User id and text of each delivery."""

    async def run(self) -> None:
        """Return at once: there is no connection."""

    async def receive(self, user_id: str, update_id: str, text: str) -> InboundAccepted | None:
        """Store a user's message; None for a stranger."""
        dm = self._conversations.find(self._name, user_id)
        if dm is None:
            return None
        message = InboundMessage(
            gateway=self._name,
            dm=dm.name,
            update_id=update_id,
            text=text,
            sent_at=datetime.now(UTC),
        )
        return await self._control.accept(message)

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Keep a message."""
        self.delivered.append((user_id, message.text))
        return DeliveryReceipt(outbox_id=message.outbox_id, status="delivered")

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Ignore activities."""

    @contextlib.asynccontextmanager
    async def open_file(self, ref: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Raise NotFound: there are no files."""
        raise NotFound(f"There is no file {ref!r}.")
        yield

    async def take_update(self, body: bytes, headers: Mapping[str, str]) -> None:
        """Raise NotFound: there is no webhook."""
        raise NotFound("There is no webhook.")

    def state(self) -> ComponentStatus:
        """Return that it works."""
        return ComponentStatus(name=self._name, ok=True)


class EchoChannelFactory:
    """Factory that remembers its channels, so that a test can reach them."""

    def __init__(self, control: ControlClient, conversations: ConversationDirectory) -> None:
        self._control = control
        self._conversations = conversations
        self.channels: dict[str, EchoChannel] = {}

    def make(self, gateway: GatewayBinding, secrets: ChannelSecrets) -> EchoChannel:
        """Return a new channel."""
        channel = EchoChannel(gateway.name, self._control, self._conversations)
        self.channels[gateway.name] = channel
        return channel
