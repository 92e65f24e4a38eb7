"""The memory a contract test runs on: the real service over the bus, and its fake."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from choir_common.bus.client import Bus
from choir_common.clients.memory import MemoryClient, NatsMemoryClient
from choir_testing.fake_memory import FakeMemory
from tests.service.memory.servers import (
    MemoryProcess,
    make_directory,
    running_nats,
)
from tests.support.bus import BUS_KEY
from tests.support.postgres import running_postgres


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def service() -> AsyncIterator[MemoryProcess]:
    """One real service for all of them; each test takes agents of its own."""
    async with running_postgres() as postgres, running_nats() as nats:
        async with Bus(nats.url, BUS_KEY, "starter") as bus:
            with make_directory() as root:
                process = MemoryProcess(postgres.dsn, nats.url, bus, root)
                await process.start()
                yield process
                await process.stop()


@pytest.fixture(params=["service", "fake"])
async def memory(
    request: pytest.FixtureRequest, service: MemoryProcess
) -> AsyncIterator[MemoryClient]:
    if request.param == "fake":
        yield FakeMemory()
        return
    async with Bus(service.nats_url, BUS_KEY, "contract") as bus:
        yield NatsMemoryClient(bus)
