"""Call control over the bus; used by the gateway."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.messages import (
    Accepted,
    ChannelsRequest,
    ChannelTable,
    History,
    HistoryRequest,
    InboundMessage,
)

TIMEOUT_S = 5.0


class ControlInbox(Protocol):
    """What a channel needs of control."""

    async def accept(self, message: InboundMessage) -> Accepted: ...

    async def history(self, request: HistoryRequest) -> History: ...

    async def channels(self, tokens_version: int = 0) -> ChannelTable: ...


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

    async def channels(self, tokens_version: int = 0) -> ChannelTable:
        """Return the configured gateways and DMs; control learns which tokens the gateway has."""
        request = ChannelsRequest(tokens_version=tokens_version)
        return await self._bus.ask(subjects.read_channels(), request, ChannelTable, TIMEOUT_S)
