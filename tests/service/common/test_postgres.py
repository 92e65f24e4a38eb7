"""The door to Postgres against a real server: migrations once, failures in Choir's words."""

import asyncio
import os
import signal
from collections.abc import Iterable
from typing import Any

import asyncpg
import pytest

from choir_common.errors import OutcomeUnknown, StartupError, Unavailable
from choir_common.postgres import pool, type_cache
from choir_common.postgres.migrate import migrate
from choir_common.postgres.pool import MAX_SCHEMAS, Database
from choir_common.postgres.schema_state import Migration
from choir_common.postgres.type_cache import TypeCachingConnection
from tests.support.postgres import PASSWORD, running_postgres

FIRST = Migration("0001_a.sql", "CREATE TABLE {schema}.a (id int)")
SECOND = Migration("0002_b.sql", "CREATE TABLE {schema}.b (id int)")


async def test_each_migration_is_applied_once_whoever_runs_it() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        both = await asyncio.gather(*(migrate(database, "s", [FIRST]) for _ in range(4)))
        assert sorted(both) == [[], [], [], ["0001_a.sql"]]
        assert await migrate(database, "s", [FIRST, SECOND]) == ["0002_b.sql"]

        with pytest.raises(StartupError, match=r"0001_a\.sql.*changed"):
            await migrate(database, "s", [Migration(FIRST.name, "SELECT 1"), SECOND])
        with pytest.raises(StartupError, match=r"newer version of Choir.*0002_b\.sql"):
            await migrate(database, "s", [FIRST])
        broken = Migration("0003_c.sql", "CREATE TABLE {schema}.c (id int); SELECT nonsense")
        with pytest.raises(StartupError, match=r"0003_c\.sql.*failed"):
            await migrate(database, "s", [FIRST, SECOND, broken])
        assert await database.fetchval("SELECT to_regclass('s.c')") is None


async def test_a_wrong_password_is_one_clear_sentence_without_the_password() -> None:
    async with running_postgres() as server:
        database = Database(server.dsn, "wrong-pw", size=1, application="t")
        with pytest.raises(StartupError, match="password") as caught:
            await database.__aenter__()
        assert "wrong-pw" not in str(caught.value)


async def test_a_server_in_trouble_is_unavailable() -> None:
    """Out of memory or files, cancelled, dropped, idle for too long, a failing disk, a deadlock."""
    async with running_postgres() as server, open_database(server.dsn) as database:
        for state in ("53200", "53400", "57014", "57P04", "57P05", "58000", "58030", "40P01"):
            with pytest.raises(Unavailable) as caught:
                await database.execute(f"DO $$ BEGIN RAISE SQLSTATE '{state}'; END $$")
            assert caught.value.retry_after_s, state


RUNS_SLEEP = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE state = 'active' AND query = 'SELECT pg_sleep(300)'"
)


async def test_a_statement_cut_by_a_kill_has_an_unknown_outcome_and_the_pool_comes_back() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await database.execute("CREATE TABLE t (id int)")
        sleeping = asyncio.create_task(database.execute("SELECT pg_sleep(300)"))
        async with asyncio.timeout(60), open_database(server.dsn) as watching:
            while not await watching.fetchval(RUNS_SLEEP):
                await asyncio.sleep(0.02)
        assert server.pid is not None
        os.killpg(os.getpgid(server.pid), signal.SIGKILL)
        with pytest.raises(OutcomeUnknown):
            await sleeping
        with pytest.raises(Unavailable):
            await database.execute("INSERT INTO t VALUES (1)")
        assert not await database.is_reachable()
        await server.wait()
        await server.start()
        async with asyncio.timeout(60):
            while not await database.is_reachable():
                await asyncio.sleep(0.05)
        assert await database.fetchval("SELECT count(*) FROM t") == 0


async def test_a_pool_opens_a_connection_only_when_none_becomes_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backends = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'test'"
    async with running_postgres() as server, open_database(server.dsn) as database:
        monkeypatch.setattr(pool, "GROW_AFTER_S", 60.0)
        async with asyncio.timeout(30):
            await asyncio.gather(*(database.execute("SELECT 1") for _ in range(20)))
        assert await database.fetchval(backends) == 1
        monkeypatch.setattr(pool, "GROW_AFTER_S", 0.01)
        async with asyncio.timeout(30), database.connection(), database.connection():
            assert await database.fetchval(backends) == 3


async def test_who_waits_for_a_connection_gets_it_in_order_and_one_by_one() -> None:
    order: list[int] = []

    async def work(database: Database, number: int) -> None:
        async with database.connection() as held:
            await held.execute("SELECT pg_sleep(0.001)")
            order.append(number)

    async with (
        running_postgres() as server,
        Database(server.dsn, PASSWORD, size=1, application="test") as database,
    ):
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(work(database, number))
    assert order == list(range(50))


async def test_one_connection_asks_for_the_servers_own_types_for_all() -> None:
    asked: list[int] = []

    class Counting(TypeCachingConnection):
        async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
            before = len(type_cache._answers)
            found = await super()._introspect_types(typeoids, timeout)
            asked.append(len(type_cache._answers) - before)
            return found

    type_cache._answers.clear()
    async with running_postgres() as server:
        for _ in range(2):
            connection = await asyncpg.connect(
                server.dsn, password=PASSWORD, connection_class=Counting
            )
            assert await connection.fetchval("SELECT $1::bigint[]", [1, 2]) == [1, 2]
            await connection.execute("CREATE TYPE pg_temp.colour AS ENUM ('red', 'blue')")
            names = await connection.fetchval("SELECT enum_range(NULL::pg_temp.colour)")
            assert names == ["red", "blue"]
            await connection.close()
    assert asked == [1, 0, 0, 0]


async def test_a_connection_that_touched_too_many_schemas_is_replaced() -> None:
    async with (
        running_postgres() as server,
        Database(server.dsn, PASSWORD, size=1, application="test") as database,
    ):

        async def touch(schema: str) -> int:
            async with database.schema_transaction(
                schema, "BEGIN; SET LOCAL work_mem = '1MB'"
            ) as held:
                assert await held.fetchval("SHOW work_mem") == "1MB"
                return held.get_server_pid()

        first = await touch("s0")
        assert {await touch("s0") for _ in range(MAX_SCHEMAS)} == {first}
        assert {await touch(f"s{number}") for number in range(MAX_SCHEMAS + 1)} == {first}
        second = await touch("s0")
        assert second != first
        assert {await touch(f"s{number}") for number in range(MAX_SCHEMAS)} == {second}


async def test_a_statement_that_is_cut_off_leaves_no_complaint_behind() -> None:
    complaints: list[str] = []
    async with running_postgres() as server, open_database(server.dsn) as database:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, said: complaints.append(said["message"])
        )
        with pytest.raises(OutcomeUnknown):
            await database.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        async with database.connection() as held:
            held.terminate()
        assert await database.fetchval("SELECT 1") == 1
    assert complaints == []


async def test_a_transaction_in_a_schema_is_all_or_nothing() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await database.execute("CREATE TABLE t (id int)")
        with pytest.raises(ValueError, match="changed my mind"):
            async with database.schema_transaction("public", "BEGIN") as held:
                await held.execute("INSERT INTO t VALUES (1)")
                raise ValueError("changed my mind")
        assert await database.fetchval("SELECT count(*) FROM t") == 0
        async with database.schema_transaction("public", "BEGIN") as held:
            await held.execute("INSERT INTO t VALUES (1)")
        assert await database.fetchval("SELECT count(*) FROM t") == 1


def open_database(dsn: str) -> Database:
    return Database(dsn, PASSWORD, size=5, application="test")
