"""One of Choir's services as a real process for a test, with a real NATS server.

Used by the service tests of gateway and browser; a test may kill and restart the process. It is a fork of a
process that has the services' modules (`preloaded_choirctl`): an interpreter of its own takes two seconds of
processor time to load them.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from choir_common.http.client import make_client
from choir_common.wire.model import JsonObject
from choir_local.nats import EmbeddedNats
from tests.support.bus import BUS_USERS, SERVICE_KEYS
from tests.support.home import make_short_directory
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import ForkedCommand, start_service


@contextlib.asynccontextmanager
async def short_home() -> AsyncIterator[Path]:
    """Create a temporary state directory with a path that is short enough for Unix sockets."""
    root = make_short_directory("choir-")
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def socket_of(home: Path, service: str) -> Path:
    """Return the socket of a service."""
    own = {"browser": "browser/browser.sock", "egress": "agents/egress/control.sock"}
    return home / "socks" / own.get(service, f"{service}.sock")


@contextlib.asynccontextmanager
async def running_bus_server() -> AsyncIterator[EmbeddedNats]:
    """Start an empty nats-server; it keeps its port after a restart."""
    async with short_home() as root:
        server = EmbeddedNats(root / "data", root / "nats.log", BUS_USERS, port=free_port())
        try:
            await server.start()
            yield server
        finally:
            await server.stop()


class ForkedService:
    """A service in a fork; has the methods of an asyncio Process that tests need."""

    def __init__(self, command: ForkedCommand) -> None:
        self._command = command
        self.pid = command.pid

    @property
    def returncode(self) -> int | None:
        return self._command.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        while (code := self._command.poll()) is None:
            await asyncio.sleep(0.02)
        return code


@dataclass
class ServiceProcess:
    """A process `python -m <module>` with its settings in the environment and its secrets in a file."""

    module: str
    home: Path
    nats_url: str
    socket: Path
    env: dict[str, str] = field(default_factory=dict)
    secrets: JsonObject = field(default_factory=dict)
    process: Process | ForkedService | None = None
    address: str = ""
    """The address it listens on, if that is not its Unix socket."""
    certificate: str = ""
    """Its own certificate, if it has one."""

    @property
    def endpoint(self) -> str:
        return self.address or f"unix://{self.socket}"

    @property
    def log(self) -> str:
        return (self.home / "log").read_text()

    async def spawn(self) -> Process | ForkedService:
        """Start the process without waiting until it is ready."""
        secrets = self.home / "secrets.json"
        # the egress service is not on the bus
        keys = [key for name, key in SERVICE_KEYS.items() if self.module.endswith(name)]
        bus: JsonObject = {"nats_key": keys[0]} if keys else {}
        secrets.write_text(json.dumps({**bus, **self.secrets}))
        settings = {
            "CHOIR_HOME": str(self.home),
            "CHOIR_NATS_URL": self.nats_url,
            "CHOIR_SECRETS_FILE": str(secrets),
            **self.env,
        }
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        with (self.home / "log").open("ab") as log:
            self.process = ForkedService(start_service(self.module, kept | settings, log.fileno()))
        return self.process

    async def start(self) -> None:
        """Start the process and wait until it is ready. Raises TimeoutError with its log."""
        await self.spawn()
        try:
            async with asyncio.timeout(60):
                while not await self.ready():
                    await asyncio.sleep(0.05)
        except TimeoutError:
            await self.kill()  # a fixture that fails here does not run its cleanup
            raise TimeoutError(f"{self.module} is not ready: {self.log}") from None

    async def ready(self) -> bool:
        """Return whether /readyz responds with 200."""
        try:
            async with make_client(
                self.endpoint, timeout_s=2, ca_pem=self.certificate or None
            ) as client:
                return (await client.get("/readyz")).status_code == 200
        except httpx2.HTTPError:
            return False

    async def kill(self) -> None:
        """Kill the process with SIGKILL, as a crash would end it."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()

    async def stop(self) -> int:
        """Terminate the process with SIGTERM and return its exit code."""
        if self.process is None:
            return 0
        if self.process.returncode is None:
            self.process.terminate()
        async with asyncio.timeout(60):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def service_process(
    module: str, nats_url: str, env: dict[str, str] | None = None
) -> AsyncIterator[ServiceProcess]:
    """Create a service process with its own state directory, not started yet; kill it after the block."""
    async with short_home() as home:
        place = socket_of(home, module.removeprefix("choir_"))
        process = ServiceProcess(module, home, nats_url, place, env or {})
        try:
            yield process
        finally:
            await process.kill()
