"""The embedded Postgres against its real programs: made whole, found again after any death."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from choir_common.errors import StartupError
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from tests.support.home import make_short_directory

PASSWORD = 'it\'s a "secret"'


@pytest.fixture
def root() -> Iterator[Path]:
    """Make a directory whose path is short enough for a socket."""
    path = make_short_directory("choir-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


def places(root: Path, binaries: Path | None = None) -> PostgresPaths:
    return PostgresPaths(root / "data" / "postgres", root / "socks", root / "pg.log", binaries)


AGENTS = 1_700
FILES_OF_AN_AGENT = 36


@pytest.fixture
async def server(root: Path) -> AsyncIterator[EmbeddedPostgres]:
    """Start a server."""
    server = EmbeddedPostgres(places(root), PASSWORD)
    await server.start()
    yield server
    await server.stop()


async def connect(server: EmbeddedPostgres, password: str = PASSWORD) -> asyncpg.Connection:
    return await asyncpg.connect(server.dsn, password=password)


async def ask(server: EmbeddedPostgres, sql: str, password: str = PASSWORD) -> object:
    connection = await connect(server, password)
    try:
        return await connection.fetchval(sql)
    finally:
        await connection.close()


async def test_it_speaks_vectors_and_keeps_what_it_acknowledged(server: EmbeddedPostgres) -> None:
    assert await ask(server, "SELECT '[1,2]'::vector <-> '[1,3]'") == 1.0
    assert await ask(server, "SHOW fsync") == "on"
    assert await ask(server, "SHOW synchronous_commit") == "on"
    cache = "SELECT pg_size_bytes(current_setting('shared_buffers')) / 1048576"
    assert await ask(server, cache) == min(max(psutil.virtual_memory().total // 2**24, 48), 2048)
    locale = "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = 'choir'"
    assert await ask(server, locale) == "bC.UTF-8"


async def test_only_its_owner_with_the_password_gets_in(
    server: EmbeddedPostgres, root: Path
) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await connect(server, "wrong")
    assert (root / "socks").stat().st_mode & 0o777 == 0o700
    assert (root / "data" / "postgres").stat().st_mode & 0o777 == 0o700
    assert server.pid is not None
    assert [c for c in psutil.Process(server.pid).net_connections("tcp") if c.laddr] == []
    assert PASSWORD not in server.dsn


async def test_a_kill_loses_nothing_that_was_acknowledged(server: EmbeddedPostgres) -> None:
    await ask(server, "CREATE TABLE kept (id int)")
    for number in range(3):
        await ask(server, f"INSERT INTO kept VALUES ({number})")
        assert server.pid is not None
        os.killpg(server.pid, signal.SIGKILL)
        assert await server.wait() == -signal.SIGKILL
        await server.start()
    assert await ask(server, "SELECT count(*) FROM kept") == 3


async def test_a_lock_file_whose_pid_belongs_to_another_program_is_no_hindrance(
    server: EmbeddedPostgres, root: Path
) -> None:
    await server.stop()
    lock = root / "data" / "postgres" / "postmaster.pid"
    lock.write_text(f"{os.getpid()}\n{lock.parent}\n1700000000\n5432\n{root / 'socks'}\n\n 1 2\n")
    await server.start()
    assert await ask(server, "SELECT 1") == 1


async def test_a_lost_password_is_set_anew(server: EmbeddedPostgres, root: Path) -> None:
    await ask(server, "CREATE TABLE kept (id int)")
    await server.stop()
    again = EmbeddedPostgres(places(root), "another", reset_password=True)
    await again.start()
    try:
        assert await ask(again, "SELECT count(*) FROM kept", "another") == 0
    finally:
        await again.stop()


async def test_an_interrupted_creation_is_never_taken_for_a_cluster(root: Path) -> None:
    server = EmbeddedPostgres(places(root), PASSWORD)
    making = asyncio.create_task(server.prepare())
    async with asyncio.timeout(90):
        while not list(root.glob("data/postgres.partial-*/PG_VERSION")):
            await asyncio.sleep(0.001)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert not (root / "data" / "postgres").exists()
    await server.start()
    try:
        assert await ask(server, "SELECT 1") == 1
        assert [path.name for path in (root / "data").iterdir()] == ["postgres"]
    finally:
        await server.stop()


async def test_data_of_another_version_is_refused_untouched(
    server: EmbeddedPostgres, root: Path
) -> None:
    await server.stop()
    data = root / "data" / "postgres"
    (data / "PG_VERSION").write_text("13\n")
    before = sorted((p, p.stat().st_mtime_ns) for p in data.rglob("*"))
    with pytest.raises(StartupError) as caught:
        await EmbeddedPostgres(places(root), PASSWORD).start()
    message = caught.value.message
    for part in (str(data), "Postgres 13", "CHOIR_PG_BIN", "pg_dumpall", "Nothing was touched"):
        assert part in message
    assert "\n" not in message
    assert sorted((p, p.stat().st_mtime_ns) for p in data.rglob("*")) == before


async def test_a_directory_with_something_else_in_it_is_refused(root: Path) -> None:
    data = root / "data" / "postgres"
    data.mkdir(parents=True)
    (data / "holiday.jpg").write_bytes(b"x")
    with pytest.raises(StartupError, match="contains no Postgres data"):
        await EmbeddedPostgres(places(root), PASSWORD).start()
    assert [path.name for path in data.iterdir()] == ["holiday.jpg"]


async def test_a_socket_path_that_is_too_long_is_said_so_before_anything_is_made(
    root: Path,
) -> None:
    deep = root / ("d" * 100)
    with pytest.raises(StartupError, match=r"bytes long.*at most 107.*CHOIR_HOME"):
        await EmbeddedPostgres(places(deep), PASSWORD).start()
    assert not deep.exists()


async def test_a_data_directory_in_use_is_not_served_twice(
    server: EmbeddedPostgres, root: Path
) -> None:
    starting = asyncio.create_task(EmbeddedPostgres(places(root), PASSWORD).prepare())
    done, _ = await asyncio.wait({starting}, timeout=1.0)
    assert not done  # it waits for the one that runs to go away
    starting.cancel()
    assert await ask(server, "SELECT 1") == 1


HOST = """
import asyncio, sys
from pathlib import Path
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
async def main():
    root = Path(sys.argv[1])
    server = EmbeddedPostgres(PostgresPaths(root / "d", root / "s", root / "log"), "pw")
    await server.start()
    print(server.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_it_does_not_outlive_a_killed_parent(root: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, root], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host.stdout:
        pid = int(await asyncio.to_thread(host.stdout.readline))
    server = psutil.Process(pid)
    family = [server, *server.children()]
    host.kill()
    host.wait()
    _, alive = await asyncio.to_thread(psutil.wait_procs, family, 60)
    assert alive == []
    # who reads its last words is dead; it takes this file away when it has shut down in good order
    assert not (root / "d/postmaster.pid").exists()


async def test_a_server_of_many_agents_has_room_for_a_lock_on_every_table(root: Path) -> None:
    first = EmbeddedPostgres(places(root), PASSWORD)
    await first.start()
    assert await ask(first, "SHOW max_locks_per_transaction") == "128"
    await first.stop()

    # as a database of them looks from outside
    crowd = root / "data" / "postgres" / "base" / "crowd"
    crowd.mkdir()
    for number in range(AGENTS * FILES_OF_AN_AGENT):
        (crowd / str(number)).touch()
    again = EmbeddedPostgres(places(root), PASSWORD)
    await again.start()
    room = (
        "SELECT current_setting('max_locks_per_transaction')::int"
        " * current_setting('max_connections')::int"
    )
    tables = AGENTS * 8
    assert int(str(await ask(again, room))) > tables
    await again.stop()
