"""Ask control over the bus what the memory service's rounds go by; used by the memory service."""

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
        """Return the configuration's orders; raises Unavailable while control is away."""
        return await self._bus.ask(
            subjects.read_memory_orders(), Nothing(), MemoryOrders, TIMEOUT_S
        )
