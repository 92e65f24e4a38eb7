"""Embedded PostgreSQL server: Unix socket only, durable, ends with its parent process.

Used by `Stack`, `database.connection` and tests. `postgres_cluster` creates and checks the data directory.
"""

import asyncio
import os
import shutil
import signal
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from choir_local.embedded import EmbeddedServer
from choir_local.launch import Command, clean_environment
from choir_local.postgres_binaries import find_postgres_binaries
from choir_local.postgres_cluster import (
    DATABASE,
    SUPERUSER,
    Cluster,
    check_major_version,
    read_major_version,
    release_directory,
)
from choir_local.process_user import unprivileged_identity
from choir_local.sockets import check_socket_path

PORT = 5432  # part of the socket's file name; there is no TCP port
SOCKET_FILE = f".s.PGSQL.{PORT}"
SMALL_SHM = 256 * 1024 * 1024  # bytes; Docker's default /dev/shm is 64 MiB

MB = 1024 * 1024

MAX_CONNECTIONS = 100
MIN_LOCKS = 128
"""Twice Postgres' default, for 1.6 MB: enough for 2,400 agents until the next start."""
SHARE_OF_MEMORY = 16
MIN_CACHE_MB, MAX_CACHE_MB = 48, 2048
"""The maximum fits a million vectors and their index. Each 100 MB need 1.6 MB of bookkeeping."""
FILES_PER_TABLE = 4
"""A table with its indexes, its TOAST table and that table's index; agents' tables have at least these."""


@dataclass(frozen=True, slots=True)
class PostgresPaths:
    """Paths of a server's data, socket and log; `binaries` is CHOIR_PG_BIN."""

    data_dir: Path
    socket_dir: Path
    log: Path
    binaries: Path | None = None


class EmbeddedPostgres(EmbeddedServer):
    """Embedded Postgres server. A supervisor uses `prepare` and `command`; others use `start`."""

    name = "postgres"
    stop_signal = signal.SIGINT  # fast shutdown: SIGTERM would wait for every client
    ready_within = timedelta(minutes=2)  # crash recovery after a long run replays the log first
    stop_within = timedelta(seconds=15)

    def __init__(
        self, paths: PostgresPaths, password: str, *, reset_password: bool = False
    ) -> None:
        """`reset_password` gives an existing cluster this password at the first start."""
        super().__init__(paths.log)
        self._paths = paths
        self._password = password
        self._reset_password = reset_password
        self._cluster: Cluster | None = None

    @property
    def dsn(self) -> str:
        """Return the DSN of the database `choir`, without the password."""
        return f"postgresql://{SUPERUSER}@/{DATABASE}?host={self._paths.socket_dir}"

    async def prepare(self) -> None:
        """Create the cluster or check the existing one.

        Raises StartupError, with nothing changed, if the data directory is unsuitable or in use.
        """
        paths = self._paths
        check_socket_path(paths.socket_dir / f"{SOCKET_FILE}.lock")
        version = read_major_version(paths.data_dir)
        if self._cluster is None:
            binaries = await asyncio.to_thread(find_postgres_binaries, paths.binaries, version)
            identity = await asyncio.to_thread(unprivileged_identity)
            self._cluster = Cluster(paths.data_dir, binaries, identity)
        if version is None:
            paths.data_dir.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._cluster.create(self._password)
        else:
            check_major_version(paths.data_dir, version, self._cluster.binaries)
            await release_directory(paths.data_dir)
            self._cluster.change_owner(paths.data_dir)
            if self._reset_password:
                await self._cluster.set_password(self._password)
        self._reset_password = False
        self._prepare_sockets(self._cluster)

    def _prepare_sockets(self, cluster: Cluster) -> None:
        directory = self._paths.socket_dir
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        cluster.change_owner(directory)
        for name in (SOCKET_FILE, f"{SOCKET_FILE}.lock"):
            (directory / name).unlink(missing_ok=True)

    def command(self) -> Command:
        """Return the command to start; call `prepare` first."""
        if self._cluster is None:
            raise RuntimeError("call prepare() before command()")
        settings = _settings(
            self._paths.socket_dir,
            self._cluster.binaries.major,
            max_locks_per_transaction(self._paths.data_dir),
        )
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Command(
            argv=(
                self._cluster.binaries.program("postgres"),
                *("-D", str(self._paths.data_dir), "-p", str(PORT)),
                *options,
            ),
            env=clean_environment(TZ="UTC"),
            identity=self._cluster.identity,
            death_signal=self.stop_signal,
        )

    async def is_ready(self, pid: int) -> bool:
        """Return whether the server with this pid accepts connections."""
        try:
            lines = (self._paths.data_dir / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[-1].strip() == "ready"


def max_locks_per_transaction(data_dir: Path) -> int:
    """Return max_locks_per_transaction for the number of tables in the data directory.

    A backup locks every table at once, and each agent has eight: from about 1,400 agents on, Postgres'
    default of 64 is too low, and while all locks are taken no other transaction gets one. A lock slot needs
    230 bytes even if it is not used, so there are slots for 1.5 times the present number of tables.
    """
    files = sum(1 for _ in data_dir.glob("base/*/*"))
    return max(MIN_LOCKS, files * 3 // 2 // FILES_PER_TABLE // MAX_CONNECTIONS)


def shared_buffers_mb() -> int:
    """Return the size of shared_buffers in megabytes: a sixteenth of the machine's memory, within limits.

    Postgres allocates only what it has read. If an agent's vectors do not fit, each step of a vector search
    asks the system for a page: with 48 MB a search in 100,000 vectors took two and a half times the CPU.
    """
    return min(
        max(psutil.virtual_memory().total // MB // SHARE_OF_MEMORY, MIN_CACHE_MB), MAX_CACHE_MB
    )


def _settings(socket_dir: Path, major: int, locks: int) -> dict[str, str]:
    """Return the server's settings: durable, small, and without user data in the log."""
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": str(socket_dir),
        "unix_socket_permissions": "0700",
        "password_encryption": "scram-sha-256",
        "max_connections": str(MAX_CONNECTIONS),
        "max_locks_per_transaction": str(locks),
        "shared_buffers": f"{shared_buffers_mb()}MB",
        "work_mem": "4MB",
        "maintenance_work_mem": "64MB",
        "max_wal_size": "512MB",
        "checkpoint_completion_target": "0.9",
        "max_worker_processes": "4",
        "max_parallel_workers_per_gather": "0",
        "autovacuum_max_workers": "2",
        "jit": "off",
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "dynamic_shared_memory_type": "mmap" if _shm_is_small() else "posix",
        # A failing statement or its row may contain a message or a token, which must not be logged.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "log_checkpoints": "off",
        "log_timezone": "UTC",
        "timezone": "UTC",
    }
    if major >= 18:
        settings["io_method"] = (
            "sync"  # the I/O workers cost three processes and have no benefit here
        )
    return settings


def _shm_is_small() -> bool:
    try:
        return shutil.disk_usage("/dev/shm").free < SMALL_SHM or not os.access("/dev/shm", os.W_OK)  # noqa: S108
    except OSError:
        return True
