"""Each of Choir's services that answers HTTP, but for choird: four real processes.

Used by the tests of rows S1 and S2. choird has tests of its own, with an agent that is at home there.
"""

import contextlib
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from choir_common.bus.client import Bus
from choir_local.nats import EmbeddedNats
from tests.service.gateway.control_stand_in import channel_table, running_control
from tests.service.memory.servers import MemoryProcess
from tests.support.bus import BUS_KEY
from tests.support.home import make_short_directory
from tests.support.postgres import running_postgres
from tests.support.service_process import running_bus_server, service_process

SERVICES = ("gateway", "memory", "browser", "egress")
GATEWAY_TOKEN = "gateway-token-of-the-test"


@dataclass(frozen=True, slots=True)
class Door:
    """Where a service answers."""

    service: str
    socket: Path
    pid: int
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    @property
    def resident(self) -> int:
        """Return the process' resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)


@contextlib.asynccontextmanager
async def running_door(service: str) -> AsyncIterator[Door]:
    """Start a service with the neighbours it needs, until it is ready."""
    async with running_bus_server() as nats:
        starting = _memory(nats) if service == "memory" else _plain(service, nats)
        async with starting as door:
            yield door


@contextlib.asynccontextmanager
async def _plain(service: str, nats: EmbeddedNats) -> AsyncIterator[Door]:
    async with (
        Bus(nats.url, BUS_KEY, "control") as bus,
        running_control(bus, channel_table()),
        service_process(f"choir_{service}", nats.url) as process,
    ):
        if service == "gateway":
            process.secrets = {"gateway_token": GATEWAY_TOKEN}
        await process.start()
        assert process.process is not None
        yield Door(
            service,
            process.socket,
            process.process.pid,
            {"Authorization": f"Bearer {GATEWAY_TOKEN}"},
        )
        assert await process.stop() == 0, process.log
        assert "Traceback" not in process.log


@contextlib.asynccontextmanager
async def _memory(nats: EmbeddedNats) -> AsyncIterator[Door]:
    root = make_short_directory("choir-mem-")
    async with running_postgres() as postgres, Bus(nats.url, BUS_KEY, "test") as bus:
        process = MemoryProcess(postgres.dsn, nats.url, bus, root)
        try:
            await process.start()
            assert process.process is not None
            yield Door("memory", root / "socks" / "memory.sock", process.process.pid)
            assert await process.stop() == 0, process.log
            assert "Traceback" not in process.log
        finally:
            await process.kill()
            shutil.rmtree(root, ignore_errors=True)
