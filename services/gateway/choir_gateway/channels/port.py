"""The port of a channel that runs by itself (`Bot`), and what it is given: people, control, files.

Used by roster.py; implemented in telegram/.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from choir_common.clients.control import ControlInbox
from choir_common.clients.outbox_files import OutboxFiles
from choir_common.wire.activity import DmActivity
from choir_common.wire.messages import ChannelCommand, DmBinding, OutboundMessage, Receipt
from choir_common.wire.operator import PartStatus


class Bot(Protocol):
    """A channel instance with a life of its own."""

    async def run(self) -> None:
        """Take in messages until cancelled."""
        ...

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send words and files to a user; see `choir_common.clients.gateway` for what it raises."""
        ...

    def show(self, activity: DmActivity, user_id: str) -> None:
        """Show what goes on; returns at once."""
        ...

    def open_file(self, ref: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Give a file that a user sent; see `choir_common.clients.gateway_files` for what it raises."""
        ...

    async def take_update(self, body: bytes, secret: str) -> None:
        """Store what was brought to the bot's webhook; returns once it is durable.

        Raises Unauthorized for another secret, NotFound when the bot has no webhook, BadInput, Unavailable.
        """
        ...

    def state(self) -> PartStatus:
        """Tell how the channel stands."""
        ...


class Contacts:
    """The configured DMs, which are the allowlist of every channel, and what may be typed in them."""

    def __init__(self) -> None:
        self.by_name: dict[str, DmBinding] = {}
        self.commands: tuple[ChannelCommand, ...] = ()

    def replace(self, dms: Sequence[DmBinding], commands: Sequence[ChannelCommand] = ()) -> None:
        """Take over a new configuration."""
        self.by_name = {dm.name: dm for dm in dms}
        self.commands = tuple(commands)

    def find(self, gateway: str, user_id: str) -> DmBinding | None:
        """Return the DM of a user on a gateway; none for a stranger."""
        for dm in self.by_name.values():
            if dm.gateway == gateway and dm.user_id == user_id:
                return dm
        return None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """What every channel works with."""

    control: ControlInbox
    files: OutboxFiles
    contacts: Contacts
