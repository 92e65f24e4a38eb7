"""The interface of a channel (`Channel`) and its collaborators: users, control, files.

Used by `channel_registry`, implemented in `telegram`.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from choir_common.clients.control import ControlClient, OutboxFilesClient
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import ChannelCommand, DeliveryReceipt, DmBinding, OutboundMessage
from choir_common.wire.operator import ComponentStatus


class Channel(Protocol):
    """A channel with its own task for incoming messages."""

    async def run(self) -> None:
        """Receive messages until cancelled."""
        ...

    async def deliver(self, message: OutboundMessage, user_id: str) -> DeliveryReceipt:
        """Send a message to a user; raises the errors of `choir_common.clients.gateway`."""
        ...

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show an agent's activity; returns at once."""
        ...

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yield the bytes of a file that a user sent; raises as `choir_common.clients.gateway`."""
        ...

    async def take_update(self, body: bytes, secret: str) -> None:
        """Store an update from the bot's webhook; returns once it is durable.

        Raises Unauthorized for a wrong secret, NotFound if the bot has no webhook, InvalidRequest,
        Unavailable.
        """
        ...

    def state(self) -> ComponentStatus:
        """Return the state of the channel."""
        ...


class ConversationDirectory:
    """The configured DMs (the allowlist of every channel) and the commands available in them."""

    def __init__(self) -> None:
        self.by_name: dict[str, DmBinding] = {}
        self.commands: tuple[ChannelCommand, ...] = ()

    def replace(self, dms: Sequence[DmBinding], commands: Sequence[ChannelCommand] = ()) -> None:
        """Replace the DMs and commands by those of a new configuration."""
        self.by_name = {dm.name: dm for dm in dms}
        self.commands = tuple(commands)

    def find(self, gateway: str, user_id: str) -> DmBinding | None:
        """Return the DM of a user on a gateway, or None for a stranger."""
        for dm in self.by_name.values():
            if dm.gateway == gateway and dm.user_id == user_id:
                return dm
        return None


@dataclass(frozen=True, slots=True)
class ChannelDependencies:
    """Collaborators of every channel."""

    control: ControlClient
    files: OutboxFilesClient
    contacts: ConversationDirectory
