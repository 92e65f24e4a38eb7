"""Client for the memory service's configuration, read from control over NATS; used by memory."""

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.wire.memory_orders import MemoryOrders
from choir_common.wire.messages import Nothing

TIMEOUT_S = 5.0


class BusMemoryOrders:
    """Control over NATS."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def read(self) -> MemoryOrders:
        """Return memory's part of the configuration; raises Unavailable while control is down."""
        return await self._bus.ask(
            subjects.read_memory_orders(), Nothing(), MemoryOrders, TIMEOUT_S
        )
