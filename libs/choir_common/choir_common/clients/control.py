"""Call control over the bus; used by the gateway."""

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
    """What a channel needs of control."""

    async def accept(self, message: InboundMessage) -> Accepted: ...

    async def history(self, request: HistoryRequest) -> History: ...

    async def channels(self, tokens_version: int = 0) -> ChannelTable: ...

    async def press(self, press: Press) -> Pressed: ...

    async def keep_card(self, card: KeptCard) -> None: ...

    async def keep_progress(self, progress: PartlySent) -> None: ...


class BusControlInbox:
    """Control over NATS."""

    def __init__(self, bus: Bus, instance: str = "") -> None:
        """`instance` identifies this process of the gateway; empty: control does not watch for restarts."""
        self._bus = bus
        self._instance = instance

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
        request = ChannelsRequest(tokens_version=tokens_version, instance=self._instance)
        return await self._bus.ask(subjects.read_channels(), request, ChannelTable, TIMEOUT_S)

    async def press(self, press: Press) -> Pressed:
        """Do what a button says; returns once that is durable. Safe to repeat.

        One that is forged, used or another's does nothing and is answered like any other.
        """
        return await self._bus.ask(subjects.press_button(), press, Pressed, TIMEOUT_S)

    async def keep_card(self, card: KeptCard) -> None:
        """Remember the message that shows a card, for the time after a restart."""
        await self._bus.ask(subjects.keep_card(), card, Nothing, TIMEOUT_S)

    async def keep_progress(self, progress: PartlySent) -> None:
        """Remember how far a message is, for the time after a restart. Safe to repeat."""
        await self._bus.ask(subjects.keep_progress(), progress, Nothing, TIMEOUT_S)
