"""The lease of the gateway that works, of several at this control (docs/decisions/0122).

A gateway that gives its address asks each second. One has the lease, and the others are its standbys. The
holder stops by its own clock before the lease is free here, so two never work at the same time.
"""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import httpx2
import structlog

from choir_common.bus import subjects
from choir_common.bus.client import Bus
from choir_common.clients.gateway import NatsGatewayClient
from choir_common.clock import Clock
from choir_common.wire.messages import Empty, ReadChannels

log = structlog.get_logger("choir.gateway_lease")

LEASE_S = 3.0
"""Seconds for which a gateway may work, from when it asked."""
FREE_AFTER_S = 5.0
"""Seconds after which another one gets the lease, from the last answer; the difference is time to stop."""


@dataclass(frozen=True, slots=True)
class GatewayInstance:
    """A gateway process that has the lease; empty texts if none has it."""

    instance: str = ""
    address: str = ""


class GatewayHolderStore(Protocol):
    """Where the holder is stored for the next leader."""

    async def read(self) -> GatewayInstance: ...

    async def write(self, holder: GatewayInstance) -> None: ...


class GatewayAddress:
    """Address of the gateway that works, to which HTTP requests are led."""

    def __init__(self) -> None:
        self.address = ""
        """IP address; empty: that of the configured endpoint, whose port and scheme always count."""

    async def lead(self, request: httpx2.Request) -> None:
        """Change the host of a request."""
        if self.address:
            request.url = request.url.copy_with(host=self.address)


class GatewayLease:
    """Decides which gateway works."""

    def __init__(
        self,
        holders: GatewayHolderStore,
        *,
        gateway: NatsGatewayClient,
        route: GatewayAddress,
        bus: Bus,
        clock: Clock,
    ) -> None:
        self._holders = holders
        self._gateway = gateway
        self._route = route
        self._bus = bus
        self._clock = clock
        self._holder: GatewayInstance | None = None
        self._free_at = 0.0
        # A holder is stored before it is told so, and nobody else is answered in between.
        self._lock = asyncio.Lock()

    async def ask(self, request: ReadChannels) -> float | None:
        """Return the seconds for which a gateway may work, 0 without a limit; None: another one works.

        Raises Unavailable if a new holder cannot be stored.
        """
        async with self._lock:
            if not request.address:
                self._lead_to(GatewayInstance(request.instance))
                return 0.0
            holder = await self._read()
            own = GatewayInstance(request.instance, request.address)
            if request.leaving:
                await self._end(own)
                return None
            if holder != own:
                if holder.instance and self._clock.monotonic() < self._free_at:
                    return None
                await self._holders.write(own)
                log.info("gateway has the lease", instance=own.instance, address=own.address)
                self._holder = own
            self._free_at = self._clock.monotonic() + FREE_AFTER_S
            self._lead_to(own)
            return LEASE_S

    async def _read(self) -> GatewayInstance:
        """Return the holder; that of an earlier leader has the time of a lease to ask again."""
        if self._holder is None:
            self._holder = await self._holders.read()
            self._free_at = self._clock.monotonic() + FREE_AFTER_S
            self._lead_to(self._holder)
        return self._holder

    async def _end(self, own: GatewayInstance) -> None:
        if self._holder == own:
            await self._holders.write(GatewayInstance())
            self._holder = GatewayInstance()
            await self._bus.publish(subjects.channels_changed(), Empty())

    def _lead_to(self, holder: GatewayInstance) -> None:
        self._route.address = holder.address
        self._gateway.set_instance(holder.instance)
