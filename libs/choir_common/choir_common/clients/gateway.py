"""Client of the gateway over NATS; used by control's outbox."""

import asyncio
from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import OutcomeUnknown
from choir_common.wire.messages import OutboundMessage, Receipt

# A long Telegram message takes this long under its rate limits.
TIMEOUT_S = 60.0


class Gateway(Protocol):
    """Delivery of messages to users."""

    async def deliver(self, message: OutboundMessage) -> Receipt: ...


class BusGateway:
    """The gateway over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._instance = ""
        self._in_flight: set[asyncio.Timeout] = set()
        bus.watch_connection(self)

    def note_instance(self, instance: str) -> None:
        """Record which gateway process runs; a new one cannot respond to an earlier one's requests.

        Pending deliveries then fail at once. Call this before the new process receives its channels: until
        then it delivers nothing.
        """
        if instance in ("", self._instance):
            return
        replaced, self._instance = self._instance, instance
        if replaced:
            self._end_in_flight()

    def note_disconnected(self) -> None:
        """End the deliveries in flight: the gateway cannot answer over a broken connection."""
        self._end_in_flight()

    def _end_in_flight(self) -> None:
        now = asyncio.get_running_loop().time()
        for delivery in self._in_flight:
            delivery.reschedule(now)
        self._in_flight.clear()

    async def deliver(self, message: OutboundMessage) -> Receipt:
        """Deliver a message through its channel.

        Raises Unavailable or RateLimited if it was certainly not sent, DeadlineExceeded or OutcomeUnknown
        if it may have been.
        """
        try:
            async with asyncio.timeout(None) as delivery:
                self._in_flight.add(delivery)
                try:
                    return await self._bus.ask(
                        subjects.deliver_message(), message, Receipt, TIMEOUT_S
                    )
                finally:
                    # An expired timeout must not be rescheduled.
                    self._in_flight.discard(delivery)
        except TimeoutError as error:
            raise OutcomeUnknown(
                "The gateway was restarted, or the bus broke, while it delivered."
            ) from error
