"""Call the gateway over the bus; used by control's outbox."""

from typing import Protocol

from choir_common.bus import subjects
from choir_common.bus.client import Bus
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

    async def deliver(self, message: OutboundMessage) -> Receipt:
        """Hand a message to its channel.

        Raises Unavailable or RateLimited when it was surely not sent, DeadlineExceeded or
        OutcomeUnknown when it may have been.
        """
        return await self._bus.ask(subjects.deliver_message(), message, Receipt, TIMEOUT_S)
