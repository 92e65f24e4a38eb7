"""Call the gateway over the bus; used by control's outbox."""

import asyncio
from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.errors import OutcomeUnknown
from choir_common.wire.messages import OutboundMessage, Receipt

# a long Telegram answer under rate limits takes its time
TIMEOUT_S = 60.0


class Gateway(Protocol):
    """Something that carries words to users."""

    async def deliver(self, message: OutboundMessage) -> Receipt: ...


class BusGateway:
    """The gateway over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._instance = ""
        self._in_flight: set[asyncio.Timeout] = set()

    def note_instance(self, instance: str) -> None:
        """Record which gateway process runs; a new one cannot answer what an earlier one was asked.

        Call this before the new process learns its channels: until then it delivers nothing.
        """
        if instance in ("", self._instance):
            return
        replaced, self._instance = self._instance, instance
        if not replaced:
            return
        now = asyncio.get_running_loop().time()
        for delivery in self._in_flight:
            delivery.reschedule(now)
        self._in_flight.clear()

    async def deliver(self, message: OutboundMessage) -> Receipt:
        """Hand a message to its channel.

        Raises Unavailable or RateLimited when it was surely not sent, DeadlineExceeded or
        OutcomeUnknown when it may have been.
        """
        try:
            async with asyncio.timeout(None) as delivery:
                self._in_flight.add(delivery)
                try:
                    return await self._bus.ask(
                        subjects.deliver_message(), message, Receipt, TIMEOUT_S
                    )
                finally:
                    # an ended timeout must not be rescheduled
                    self._in_flight.discard(delivery)
        except TimeoutError as error:
            raise OutcomeUnknown("The gateway was restarted while it delivered.") from error
