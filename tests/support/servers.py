"""Real Postgres for a test: from the wheels, a server of its own or a database in the one of its process.

Called by fixtures. A test that kills or stops a server starts one with `running_postgres`; all others share
the one that `keeper` holds.
"""

import asyncio
import atexit
import contextlib
import functools
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import asyncpg

from choir_local.postgres import EmbeddedPostgres, PostgresPlaces

PASSWORD = "test-password"
MEMORY_DISK = Path("/dev/shm")
# what the log and the databases of several servers may come to; a container may have 64 MiB only
ENOUGH_BYTES = 4 * 1024**3


@contextlib.asynccontextmanager
async def running_postgres(*, in_memory: bool = False) -> AsyncIterator[EmbeddedPostgres]:
    """Start an empty Postgres in a short temporary directory, on a disk unless told otherwise."""
    root = make_place("choir-pg-", in_memory=in_memory)
    try:
        await asyncio.to_thread(shutil.copytree, await _finished_cluster(), root / "data")
        server = EmbeddedPostgres(
            PostgresPlaces(root / "data", root / "s", root / "postgres.log"), PASSWORD
        )
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
    finally:
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


@contextlib.asynccontextmanager
async def fresh_database(dsn: str) -> AsyncIterator[str]:
    """Make an empty database beside the one of `dsn`, gone afterwards; yield its address."""
    name = f"t{uuid4().hex[:12]}"
    await _tell(dsn, f"CREATE DATABASE {name}")
    address, _, query = dsn.partition("?")
    try:
        yield f"{address.rpartition('/')[0]}/{name}?{query}"
    finally:
        # whoever is still connected would keep its eight megabytes until the last test
        await _tell(dsn, f"DROP DATABASE {name} WITH (FORCE)")


def make_place(prefix: str, *, in_memory: bool) -> Path:
    """Make a directory with a short path: a Unix socket's takes 107 bytes, and pytest's own are too deep.

    In memory only where there is room for it.
    """
    there = in_memory and MEMORY_DISK.is_dir()
    roomy = there and shutil.disk_usage(MEMORY_DISK).free > ENOUGH_BYTES
    return Path(tempfile.mkdtemp(prefix=prefix, dir=MEMORY_DISK if roomy else None))


async def _finished_cluster() -> Path:
    """Return the data directory that every server of this process begins as a copy of."""
    root = _template_place()
    template = root / "data"
    if not template.exists():
        # prepared, never started: as initdb left it, or not there at all
        await EmbeddedPostgres(
            PostgresPlaces(template, root / "s", root / "postgres.log"), PASSWORD
        ).prepare()
    return template


@functools.cache
def _template_place() -> Path:
    root = make_place("choir-pg-new-", in_memory=True)
    atexit.register(forget_cluster)
    return root


def forget_cluster() -> None:
    """Remove what servers began as a copy of; a test worker ends without what `atexit` is told."""
    if _template_place.cache_info().currsize:
        shutil.rmtree(_template_place(), ignore_errors=True)
        _template_place.cache_clear()


async def _tell(dsn: str, statement: str) -> None:
    admin = await asyncpg.connect(dsn, password=PASSWORD)
    try:
        await admin.execute(statement)
    finally:
        await admin.close()
