"""Real Postgres servers and databases for tests, with the binaries from the wheels.

Used by fixtures. A test that kills or stops its server starts one with `running_postgres`; all others use a
database in the server that `keeper` runs.
"""

import asyncio
import atexit
import contextlib
import functools
import shutil
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg

from choir_common.postgres.pool import Database
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from tests.support.home import make_short_directory

PASSWORD = "test-password"


@contextlib.asynccontextmanager
async def running_postgres() -> AsyncIterator[EmbeddedPostgres]:
    """Start an empty Postgres in a temporary directory with a short path."""
    root = make_short_directory("choir-pg-")
    try:
        await asyncio.to_thread(copy_cluster, await template_cluster(), root / "data")
        server = EmbeddedPostgres(
            PostgresPaths(root / "data", root / "s", root / "postgres.log"), PASSWORD
        )
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
    finally:
        await asyncio.to_thread(shutil.rmtree, root, ignore_errors=True)


@contextlib.asynccontextmanager
async def fresh_database(dsn: str, template: str = "template1") -> AsyncIterator[str]:
    """Copy a database in the server of `dsn`, by default an empty one; yield the copy's address.

    The copy is dropped afterwards. Nobody may be connected to `template`.
    """
    name = f"t{uuid4().hex[:12]}"
    # without the write-ahead log it takes two thirds of the time
    await _tell(dsn, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
    try:
        yield address_of(name, dsn)
    finally:
        # FORCE: a remaining connection would keep the database's 8 MB until the last test
        await _tell(dsn, f"DROP DATABASE {name} WITH (FORCE)")


async def make_template(dsn: str, name: str, fill: Callable[[Database], Awaitable[object]]) -> str:
    """Create the database `name` in the server of `dsn`, `fill` it, and return `name`."""
    await _tell(dsn, f"CREATE DATABASE {name}")
    async with Database(address_of(name, dsn), PASSWORD, size=1, application=name) as database:
        await fill(database)
    return name


def address_of(database: str, dsn: str) -> str:
    """Return the address of another database in the server of `dsn`."""
    address, _, query = dsn.partition("?")
    return f"{address.rpartition('/')[0]}/{database}?{query}"


def copy_cluster(template: Path, data: Path) -> None:
    """Copy a data directory of 1,300 files; `cp` needs a tenth of the processor time of `shutil.copytree`."""
    data.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "-a", template, data], check=True)


async def template_cluster() -> Path:
    """Return the template data directory; servers of this process start with a copy of it."""
    root = _template_place()
    template = root / "data"
    if not template.exists():
        # prepared but never started, so it is exactly the result of initdb
        await EmbeddedPostgres(
            PostgresPaths(template, root / "s", root / "postgres.log"), PASSWORD
        ).prepare()
    return template


@functools.cache
def _template_place() -> Path:
    root = make_short_directory("choir-pg-new-")
    atexit.register(remove_template_cluster)
    return root


def remove_template_cluster() -> None:
    """Remove the template data directory. Needed because a test worker ends without `atexit` handlers."""
    if _template_place.cache_info().currsize:
        shutil.rmtree(_template_place(), ignore_errors=True)
        _template_place.cache_clear()


async def _tell(dsn: str, statement: str) -> None:
    admin = await asyncpg.connect(dsn, password=PASSWORD)
    try:
        await admin.execute(statement)
    finally:
        await admin.close()
