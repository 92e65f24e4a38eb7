"""Client of control over NATS; used by the gateway."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.activity import KeptCard
from choir_common.wire.messages import (
    Accepted,
    ChannelsRequest,
    ChannelTable,
    History,
    HistoryRequest,
    InboundMessage,
    Nothing,
    PartlySent,
    Press,
    Pressed,
)

TIMEOUT_S = 5.0


class ControlInbox(Protocol):
    """Control's requests that a channel needs."""

    async def accept(self, message: InboundMessage) -> Accepted: ...

    async def history(self, request: HistoryRequest) -> History: ...

    async def channels(self, tokens_version: int = 0) -> ChannelTable: ...

    async def press(self, press: Press) -> Pressed: ...

    async def keep_card(self, card: KeptCard) -> None: ...

    async def keep_progress(self, progress: PartlySent) -> None: ...


class BusControlInbox:
    """Control over NATS."""

    def __init__(self, bus: Bus, instance: str = "") -> None:
        """`instance` identifies this gateway process; empty: control does not detect its restarts."""
        self._bus = bus
        self._instance = instance

    async def accept(self, message: InboundMessage) -> Accepted:
        """Store a message; returns once it is durable. Safe to repeat.

        Raises NotFound for an unknown DM, Unavailable if nothing was stored.
        """
        return await self._bus.ask(subjects.accept_message(), message, Accepted, TIMEOUT_S)

    async def history(self, request: HistoryRequest) -> History:
        """Return a DM's outbound messages after an id."""
        return await self._bus.ask(subjects.read_history(), request, History, TIMEOUT_S)

    async def channels(self, tokens_version: int = 0) -> ChannelTable:
        """Return the configured gateways and DMs; reports which tokens the gateway has."""
        request = ChannelsRequest(tokens_version=tokens_version, instance=self._instance)
        return await self._bus.ask(subjects.read_channels(), request, ChannelTable, TIMEOUT_S)

    async def press(self, press: Press) -> Pressed:
        """Carry out the action of a button; returns once it is durable. Safe to repeat.

        A forged, used or foreign button does nothing; the response is the same as for any other.
        """
        return await self._bus.ask(subjects.press_button(), press, Pressed, TIMEOUT_S)

    async def keep_card(self, card: KeptCard) -> None:
        """Store the id of the message that shows a progress card, for use after a restart."""
        await self._bus.ask(subjects.keep_card(), card, Nothing, TIMEOUT_S)

    async def keep_progress(self, progress: PartlySent) -> None:
        """Store a message's delivery progress, for use after a restart. Safe to repeat."""
        await self._bus.ask(subjects.keep_progress(), progress, Nothing, TIMEOUT_S)
