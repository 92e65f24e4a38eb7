"""Servers and the memory service itself for tests: real Postgres, NATS and process.

The fixtures here are imported by the conftest of each test folder that needs them.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient
from choir_common.http.client import make_client
from choir_common.postgres.pool import Database
from choir_local.nats import EmbeddedNats
from choir_memory.embedding.embedder import VectorTypes
from tests.support import polling
from tests.support.bus import BUS_KEY, BUS_USERS, SERVICE_KEYS
from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.postgres import PASSWORD, fresh_database
from tests.support.preloaded_choirctl import start_service
from tests.support.service_process import ForkedService
from tests.support.shared_postgres import shared_postgres


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of one server for all tests of this process; each makes its own database in it."""
    with shared_postgres() as address:
        yield address


@pytest.fixture
async def dsn(postgres: str) -> AsyncIterator[str]:
    """The address of a fresh, empty database."""
    async with fresh_database(postgres) as address:
        yield address


@pytest.fixture
async def database(dsn: str) -> AsyncIterator[Database]:
    async with Database(dsn, PASSWORD, size=4, application="test", setup=VectorTypes()) as opened:
        yield opened


@pytest.fixture
async def nats() -> AsyncIterator[EmbeddedNats]:
    async with running_nats() as server:
        yield server


@pytest.fixture
async def bus(nats: EmbeddedNats) -> AsyncIterator[Bus]:
    async with Bus(nats.url, BUS_KEY, "test") as connected:
        yield connected


@contextlib.asynccontextmanager
async def running_nats() -> AsyncIterator[EmbeddedNats]:
    """Start an empty nats-server on a free port, which it keeps when started again."""
    root = make_short_directory("choir-nats-")
    server = EmbeddedNats(root / "data", root / "nats.log", BUS_USERS, port=free_port())
    try:
        await server.start()
        yield server
    finally:
        await server.stop()
        shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def make_directory() -> Iterator[Path]:
    """Make a home with a short path, for the sockets in it."""
    root = make_short_directory("choir-mem-")
    yield root
    shutil.rmtree(root, ignore_errors=True)


async def until(condition: Callable[[], Awaitable[bool]], within: float = 60) -> None:
    """Wait until `condition` holds."""
    await polling.until(condition, within)


@dataclass
class MemoryProcess:
    """`python -m choir_memory`, or of another module, as a child that can be killed and started again.

    The service is a fork of a process that has its modules, which saves a second of processor time, unless a
    test measures what a process of its own takes.
    """

    dsn: str
    nats_url: str
    bus: Bus
    root: Path
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, object] = field(default_factory=dict)
    process: Process | ForkedService | None = None
    module: str = "choir_memory"
    is_fork: bool = True

    @property
    def client(self) -> NatsMemoryClient:
        return NatsMemoryClient(self.bus)

    @property
    def log(self) -> str:
        return (self.root / "memory.log").read_text()

    async def spawn(self) -> Process | ForkedService:
        """Start the process; do not wait for it to be ready."""
        secrets = self.root / "secrets.json"
        known = {"postgres_password": PASSWORD, "nats_key": SERVICE_KEYS["memory"], **self.secrets}
        secrets.write_text(json.dumps(known))
        settings = {
            "CHOIR_HOME": str(self.root),
            "CHOIR_POSTGRES_DSN": self.dsn,
            "CHOIR_NATS_URL": self.nats_url,
            "CHOIR_SECRETS_FILE": str(secrets),
            **self.env,
        }
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with (self.root / "memory.log").open("ab") as log:
            if self.is_fork and self.module == "choir_memory":
                self.process = ForkedService(
                    start_service(self.module, kept | settings, log.fileno())
                )
                return self.process
            self.process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self.module),
                env=kept | settings,
                stdout=log,
                stderr=log,
            )
        return self.process

    async def start(self) -> None:
        """Start the process and wait until it is ready."""
        process = await self.spawn()

        async def ready() -> bool:
            assert process.returncode is None, self.log
            return (await self.health("/readyz"))[0] == 200

        await until(ready, 60)

    async def health(self, path: str) -> tuple[int, dict[str, object]]:
        """Ask a health route; 0 when nobody listens."""
        endpoint = f"unix://{self.root}/socks/memory.sock"
        try:
            async with make_client(endpoint, timeout_s=5) as client:
                answer = await client.get(path)
                return answer.status_code, answer.json()
        except httpx2.HTTPError:
            return 0, {}

    async def kill(self) -> None:
        """End the process as a crash would."""
        if self.process and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> int:
        """End the process as the supervisor would; return its exit code."""
        assert self.process
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            await asyncio.wait_for(self.process.wait(), 60)
        return self.process.returncode or 0


MakeMemory = Callable[..., MemoryProcess]


@pytest.fixture
async def make_memory(dsn: str, nats: EmbeddedNats, bus: Bus) -> AsyncIterator[MakeMemory]:
    """Return a maker of memory processes, all ended after the test."""
    made: list[MemoryProcess] = []
    directories = contextlib.ExitStack()

    def make(
        *, dsn: str = dsn, nats_url: str = nats.url, bus: Bus = bus, **env: str
    ) -> MemoryProcess:
        root = directories.enter_context(make_directory())
        made.append(MemoryProcess(dsn, nats_url, bus, root, env))
        return made[-1]

    yield make
    for one in made:
        await one.kill()
    directories.close()
