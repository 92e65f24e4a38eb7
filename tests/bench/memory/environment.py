"""Startup of the measured system: Postgres, NATS, the memory service and the fake embedding provider."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import asyncpg
import psutil
from pgvector.asyncpg import register_vector

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from choir_memory.embedding.provider import ProviderEmbedder
from tests.bench.memory.corpus import DIMENSIONS
from tests.service.memory.servers import MemoryProcess, make_directory, running_nats
from tests.support.bus import BUS_KEY
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.usage_fakes import make_reporter

MB = 1024 * 1024
CONNECTIONS = 8
BUILD_MB = 2_048
"""Memory limit for building an index over a million vectors; only used as far as needed."""


@dataclass
class BenchEnvironment:
    """The running processes, with a client for each."""

    memory: MemoryProcess
    client: NatsMemoryClient
    admin: "asyncpg.Connection[Any]"
    """The benchmark's own connection to Postgres, also used for the baseline."""
    dsn: str
    embedder: ProviderEmbedder
    postgres_pid: int
    admin_pid: int

    def service_mb(self) -> float:
        """Return the resident memory of the service in MB."""
        assert self.memory.process is not None
        return round(psutil.Process(self.memory.process.pid).memory_info().rss / MB, 1)

    def postgres_mb(self) -> float:
        """Return the memory of all Postgres processes in MB, with shared pages counted once (PSS)."""
        root = psutil.Process(self.postgres_pid)
        family = [root, *root.children(recursive=True)]
        return round(sum(map(_pss, family)) / MB, 1)

    def efforts(self) -> "CpuSeconds":
        """Return the CPU seconds used so far by service, Postgres and baseline."""
        assert self.memory.process is not None
        root = psutil.Process(self.postgres_pid)
        ended = root.cpu_times()
        postgres = sum(map(_cpu_s, [root, *root.children()])) + (
            ended.children_user + ended.children_system
        )
        floor = _cpu_s(psutil.Process(self.admin_pid))
        return CpuSeconds(_cpu_s(psutil.Process(self.memory.process.pid)), postgres - floor, floor)

    def floor_pool(self) -> "asyncpg.Pool[Any]":
        """Return an unopened pool with as many connections as the service has."""
        return asyncpg.create_pool(
            self.dsn,
            password=PASSWORD,
            min_size=CONNECTIONS,
            max_size=CONNECTIONS,
            init=register_vector,
        )

    async def connections_mb(self) -> list[float]:
        """Return the private memory (USS) of each of the service's Postgres connections in MB."""
        rows = await self.admin.fetch(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'choir-memory'"
        )
        return [round(psutil.Process(row["pid"]).memory_full_info().uss / MB, 1) for row in rows]


@dataclass(frozen=True, slots=True)
class CpuSeconds:
    """CPU seconds, which unlike elapsed times do not depend on other users of the machine."""

    service: float
    postgres: float
    """CPU seconds of all Postgres processes except the baseline's connection."""
    floor: float

    def each_ms(self, since: "CpuSeconds", count: int) -> tuple[float, float, float]:
        """Return the milliseconds per item since an earlier reading, for `count` items."""
        service, postgres, floor = (
            round((now - then) * 1000 / count, 2)
            for now, then in zip(astuple(self), astuple(since), strict=True)
        )
        return service, postgres, floor


def _cpu_s(process: psutil.Process) -> float:
    try:
        spent = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0  # an autovacuum worker that has just ended
    return float(spent.user + spent.system)


def _pss(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.NoSuchProcess:
        return 0  # an autovacuum worker that has just ended


@contextlib.asynccontextmanager
async def fake_provider(home: Path | None) -> AsyncIterator[str]:
    """Start the fake provider; yield its address.

    With `home` the port is stored there and reused, because the service treats another address as another
    model.
    """
    port = home / "provider.port" if home else None
    known = [port.read_text()] if port and port.exists() else []
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.bench.memory.provider", *known),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            address = (await process.stdout.readline()).decode().strip()
        if not address:
            raise RuntimeError(f"the provider did not start; is its port {known} taken?")
        if port:
            port.write_text(address)
        yield f"http://127.0.0.1:{address}/v1"
    finally:
        with contextlib.suppress(ProcessLookupError):  # it ended by itself: its port was taken
            process.kill()
        await process.wait()


@contextlib.asynccontextmanager
async def persistent_postgres(home: Path) -> AsyncIterator[EmbeddedPostgres]:
    """Start a Postgres with persistent data in `home`."""
    places = PostgresPaths(home / "data", home / "s", home / "postgres.log")
    server = EmbeddedPostgres(places, PASSWORD)
    try:
        await server.start()
        yield server
    finally:
        await server.stop()


PASSED_ON = ("CHOIR_SEARCH_CACHE_MB",)


@contextlib.asynccontextmanager
async def bench_environment(home: Path | None) -> AsyncIterator[BenchEnvironment]:
    """Start all processes and stop them after the block; the data are kept only if `home` is given."""
    with make_directory() as root:
        async with (
            running_postgres() if home is None else persistent_postgres(home) as postgres,
            running_nats() as nats,
            fake_provider(home) as provider,
            Bus(nats.url, BUS_KEY, "bench") as bus,
        ):
            env = {
                "CHOIR_EMBEDDING_ENDPOINT": provider,
                "CHOIR_EMBEDDING_MODEL": "made-up",
                "CHOIR_EMBEDDING_DIMENSIONS": str(DIMENSIONS),
                "CHOIR_POSTGRES_CONNECTIONS": str(CONNECTIONS),
                "CHOIR_UPKEEP_S": "2",
                "CHOIR_QUERY_EMBEDDING_DEADLINE_S": "10",
                "CHOIR_INDEX_BUILD_MB": str(BUILD_MB),
                # 0: as without the cache of small spaces
                **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
            }
            memory = MemoryProcess(postgres.dsn, nats.url, bus, root, env, is_fork=False)
            admin = await asyncpg.connect(postgres.dsn, password=PASSWORD, command_timeout=None)
            embedder = ProviderEmbedder(
                usage=make_reporter(),
                endpoint=provider,
                key=None,
                name="made-up",
                dimensions=DIMENSIONS,
                timeout_s=30.0,
            )
            pid = await admin.fetchval("SELECT pg_backend_pid()")
            try:
                await memory.start()
                yield BenchEnvironment(
                    memory,
                    memory.client,
                    admin,
                    postgres.dsn,
                    embedder,
                    psutil.Process(pid).ppid(),
                    pid,
                )
            finally:
                await memory.kill()
                await embedder.close()
                await admin.close()
