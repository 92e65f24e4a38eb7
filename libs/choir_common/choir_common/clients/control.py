"""Call control over the bus; used by the gateway."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.messages import (
    Accepted,
    ChannelTable,
    History,
    HistoryRequest,
    InboundMessage,
    Nothing,
)

TIMEOUT_S = 5.0


class ControlInbox(Protocol):
    """What a channel needs of control."""

    async def accept(self, message: InboundMessage) -> Accepted: ...

    async def history(self, request: HistoryRequest) -> History: ...

    async def channels(self) -> ChannelTable: ...


class BusControlInbox:
    """Control over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def accept(self, message: InboundMessage) -> Accepted:
        """Store a message; returns once it is durable. Safe to repeat.

        Raises NotFound for an unknown DM, Unavailable when nothing was stored for sure.
        """
        return await self._bus.ask(subjects.accept_message(), message, Accepted, TIMEOUT_S)

    async def history(self, request: HistoryRequest) -> History:
        """Return a DM's outbound messages after an id."""
        return await self._bus.ask(subjects.read_history(), request, History, TIMEOUT_S)

    async def channels(self) -> ChannelTable:
        """Return the configured gateways and DMs."""
        return await self._bus.ask(subjects.read_channels(), Nothing(), ChannelTable, TIMEOUT_S)
