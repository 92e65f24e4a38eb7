"""Migrations on a real server: a schema that an earlier version left goes forward whole, or stays."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from choir_common.errors import StartupError
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.postgres.schema_state import Migration, read_state
from tests.support.postgres import PASSWORD, running_postgres

CONTROL = read_migrations("choir_control.migrations")
SHARED = read_migrations("choir_memory.migrations.shared")
AGENT = read_migrations("choir_memory.migrations.agent")
EVERY = 1 if os.environ.get("CHOIR_TEST_EVERY_CUT") == "1" else 4
"""Of so many releases, one is tried."""


def open_database(dsn: str) -> Database:
    return Database(dsn, PASSWORD, size=5, application="test")


async def leave_as_a_release_did(
    database: Database, schema: str, migrations: Sequence[Migration]
) -> None:
    """Make a schema as versions without Alembic did: the files, and a record of them."""
    async with database.transaction() as held:
        await held.execute(f'CREATE SCHEMA "{schema}"')
        await held.execute(
            f'CREATE TABLE "{schema}".migrations '
            "(name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz DEFAULT now())"
        )
        for each in migrations:
            await held.execute(each.for_schema(schema))
            await held.execute(
                f'INSERT INTO "{schema}".migrations VALUES ($1, $2)', each.name, each.digest
            )


async def shape_of(database: Database, schema: str) -> list[tuple[str, ...]]:
    """Return every column, index and check of a schema."""
    rows = await database.fetch(
        """SELECT 'column', table_name, column_name, data_type, column_default, is_nullable
           FROM information_schema.columns WHERE table_schema = $1
           UNION ALL SELECT 'index', tablename, indexname, indexdef, '', ''
           FROM pg_indexes WHERE schemaname = $1
           UNION ALL SELECT 'check', conrelid::regclass::text, conname,
               pg_get_constraintdef(oid), '', ''
           FROM pg_constraint WHERE connamespace = $1::regnamespace""",
        schema,
    )
    return sorted(tuple(str(part).replace(schema, "S") for part in row) for row in rows)


async def stamp_of(database: Database, schema: str) -> str | None:
    async with database.connection() as held:
        return (await read_state(held, schema)).revision


async def test_every_released_state_goes_forward_to_what_a_new_schema_is() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await migrate(database, "fresh", CONTROL)
        new = await shape_of(database, "fresh")
        for released in range(len(CONTROL), 0, -EVERY):
            schema = f"from_{released}"
            await leave_as_a_release_did(database, schema, CONTROL[:released])
            applied = await migrate(database, schema, CONTROL)
            assert applied == [each.name for each in CONTROL[released:]]
            assert await shape_of(database, schema) == new
            assert await stamp_of(database, schema) == CONTROL[-1].revision
            assert await migrate(database, schema, CONTROL) == []


async def test_an_agents_schema_of_a_release_is_adopted_with_what_is_in_it() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await database.execute('CREATE ROLE "choir_agent-1"')
        await leave_as_a_release_did(database, "choir_memory", SHARED)
        await database.execute(
            "INSERT INTO choir_memory.embedding_models (name, dimensions, state) "
            "VALUES ('m', 384, 'active')"
        )
        await leave_as_a_release_did(database, "choir_agent-1", AGENT)
        later = Migration("0900_later.sql", "CREATE TABLE {schema}.later (id int)")
        assert await migrate(database, "choir_agent-1", [*AGENT, later]) == [later.name]
        assert await stamp_of(database, "choir_agent-1") == "0900"


async def test_turns_that_an_older_version_left_without_vectors_wait_for_them_again() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await database.execute('CREATE ROLE "choir_main"')
        await leave_as_a_release_did(database, "choir_memory", SHARED)
        await database.execute(
            "INSERT INTO choir_memory.embedding_models (name, dimensions, state) "
            "VALUES ('m', 384, 'active'); INSERT INTO choir_memory.spaces (agent_id) VALUES ('main')"
        )
        await leave_as_a_release_did(database, "choir_main", AGENT[:2])
        for place, tier in enumerate(("mid_term", "long_term_detail")):
            await database.execute(
                "INSERT INTO choir_main.memory_documents "
                "(id, session_id, tier, chunk_index, text, tsv, tokens) "
                "VALUES (gen_random_uuid(), 's', $1, $2, 'words', '', 1)",
                tier,
                place,
            )
        await migrate(database, "choir_main", AGENT)
        waiting = await database.fetch(
            "SELECT q.agent_id, q.store, d.tier FROM choir_memory.embedding_queue q "
            "JOIN choir_main.memory_documents d ON d.id = q.document_id"
        )
        assert [tuple(row) for row in waiting] == [("main", "session", "long_term_detail")]


async def test_a_step_that_fails_leaves_the_schema_as_it_was() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await leave_as_a_release_did(database, "s", CONTROL[:1])
        before = await shape_of(database, "s")
        good = Migration("0900_good.sql", "CREATE TABLE {schema}.good (id int)")
        bad = Migration("0901_bad.sql", "CREATE TABLE {schema}.bad (id int); SELECT nonsense")
        with pytest.raises(StartupError, match=r"0901_bad\.sql of s failed.*nonsense"):
            await migrate(database, "s", [*CONTROL, good, bad])
        assert await shape_of(database, "s") == before
        assert await stamp_of(database, "s") is None


@pytest.mark.nightly  # tests/faults/test_cuts.py cuts a migration at many lines
async def test_a_process_killed_in_the_middle_leaves_the_schema_as_it_was() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await leave_as_a_release_did(database, "s", CONTROL[:1])
        before = await shape_of(database, "s")
        script = f"""
import asyncio
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.schema_state import Migration
from choir_common.postgres.pool import Database
slow = Migration("0900_slow.sql", "CREATE TABLE {{schema}}.x (id int); SELECT pg_sleep(60)")
async def main():
    async with Database({server.dsn!r}, {PASSWORD!r}, size=2, application="t") as database:
        await migrate(database, "s", [*read_migrations("choir_control.migrations"), slow])
asyncio.run(main())
"""
        child = subprocess.Popen([sys.executable, "-c", script])
        sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        async with asyncio.timeout(90):
            while not await database.fetchval(sleeping):
                assert child.poll() is None
                await asyncio.sleep(0.05)
        child.kill()
        child.wait()
        # a server that sleeps hears of its client's death only when it wakes
        await database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        )
        assert await shape_of(database, "s") == before
        assert await migrate(database, "s", CONTROL) == [each.name for each in CONTROL[1:]]


async def test_requests_that_an_older_version_rejected_when_time_was_up_are_expired() -> None:
    before = [each for each in CONTROL if each.name < "0013"]
    async with running_postgres() as server, open_database(server.dsn) as database:
        await leave_as_a_release_did(database, "s", before)
        await database.execute(
            "INSERT INTO s.sessions (session_id, agent_id, status, epoch, head_hash, workspace, llm, "
            "dm, gateway) VALUES ('ses', 'main', 'stopped', 1, 'h', 'w', 'l', 'd', 'g')"
        )
        for by in ("timeout", "operator"):
            await database.execute(
                "INSERT INTO s.pending_approvals (approval_id, session_id, agent_id, call_id, "
                "request_type, payload, status, resolved_at, decided_by) "
                "VALUES ($1, 'ses', 'main', $1, 'call', '{}', 'rejected', now(), $1)",
                by,
            )
        await migrate(database, "s", CONTROL)
        rows = await database.fetch("SELECT decided_by, status FROM s.pending_approvals")
    found = {row["decided_by"]: row["status"] for row in rows}
    assert found == {"timeout": "expired", "operator": "rejected"}


async def test_replicas_that_upgrade_together_do_it_once() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await leave_as_a_release_did(database, "s", CONTROL[:1])
        await asyncio.gather(*(migrate(database, "s", CONTROL) for _ in range(3)))
        assert await stamp_of(database, "s") == CONTROL[-1].revision


async def test_a_hole_among_the_applied_files_is_refused() -> None:
    async with running_postgres() as server, open_database(server.dsn) as database:
        await leave_as_a_release_did(database, "s", [CONTROL[0], CONTROL[2]])
        with pytest.raises(
            StartupError, match=rf"{CONTROL[2].name} but not the earlier {CONTROL[1].name}"
        ):
            await migrate(database, "s", CONTROL)


async def test_a_schema_that_is_up_to_date_never_loads_alembic() -> None:
    async with running_postgres() as server:
        script = f"""
import asyncio, sys
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
files = read_migrations("choir_control.migrations")
async def main():
    async with Database({server.dsn!r}, {PASSWORD!r}, size=2, application="t") as database:
        assert await migrate(database, "s", files)
        assert await migrate(database, "s", files) == []
asyncio.run(main())
assert "alembic" not in sys.modules and "sqlalchemy" not in sys.modules
"""
        done = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
