"""The port of a channel that runs by itself (`Bot`), and the people it may talk to (`Contacts`).

Used by roster.py; implemented in telegram/.
"""

from collections.abc import Sequence
from typing import Protocol

from choir_common.wire.messages import DmBinding, OutboundMessage, Receipt
from choir_common.wire.operator import PartStatus


class Bot(Protocol):
    """A channel instance with a life of its own."""

    async def run(self) -> None:
        """Take in messages until cancelled."""
        ...

    async def deliver(self, message: OutboundMessage, user_id: str) -> Receipt:
        """Send words to a user; see `choir_common.clients.gateway` for what it raises."""
        ...

    def state(self) -> PartStatus:
        """Tell how the channel stands."""
        ...


class Contacts:
    """The configured DMs: the allowlist of every channel. Replaced whole."""

    def __init__(self) -> None:
        self.by_name: dict[str, DmBinding] = {}

    def replace(self, dms: Sequence[DmBinding]) -> None:
        """Take over a new configuration."""
        self.by_name = {dm.name: dm for dm in dms}

    def find(self, gateway: str, user_id: str) -> DmBinding | None:
        """Return the DM of a user on a gateway; none for a stranger."""
        for dm in self.by_name.values():
            if dm.gateway == gateway and dm.user_id == user_id:
                return dm
        return None
