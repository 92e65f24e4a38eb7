"""Sessions with the scripted rehearsal model stand apart: no session with a real model continues one."""

from collections.abc import AsyncIterator

import pytest

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.rpc import ResourceBindings
from choir_control.leases.token import mint
from choir_control.sessions.record import SessionRow, is_rehearsal
from choir_control.sessions.store import SessionStore

MIGRATIONS = "choir_control.migrations"
BOUND = ResourceBindings(workspace="w", llm="default", dm="d")
END = """
UPDATE choir_control.sessions SET status = 'stopped', ended_at = clock_timestamp(), head_rev = 9
WHERE session_id = $1
"""
OLD_SESSION = """
INSERT INTO choir_control.sessions (session_id, agent_id, status, epoch, head_rev, head_hash, workspace,
    llm, dm, gateway, ended_at)
VALUES ($1, 'main', 'stopped', 1, 9, 'h', 'w', 'default', 'd', 'g', clock_timestamp())
"""
OLD_OUTPUT = """
INSERT INTO choir_control.session_events (session_id, rev, lane, type, payload, at, hash_prev, hash)
VALUES ($1, 3, 'edge', 'model_output', json_build_object('model', $2::text), 'then', 'p', 'h')
"""


@pytest.fixture
async def store(database: Database) -> AsyncIterator[SessionStore]:
    await migrate(database, "choir_control", read_migrations(MIGRATIONS))
    yield SessionStore(database)


async def live_once(
    store: SessionStore, database: Database, session_id: str, *, rehearsal: bool
) -> SessionRow:
    """Begin a session and end it, with events in its log; return it as it began."""
    row = await store.create(session_id, "main", BOUND, (), "g", mint(), rehearsal=rehearsal)
    await database.execute(END, session_id)
    return row


async def test_a_real_session_continues_the_newest_real_one_and_a_rehearsal_a_rehearsal(
    store: SessionStore, database: Database
) -> None:
    continued = {}
    for name, rehearsal in (("r1", True), ("a1", False), ("r2", True), ("a2", False)):
        row = await live_once(store, database, name, rehearsal=rehearsal)
        assert row.rehearsal is rehearsal and row.view().rehearsal is rehearsal
        continued[name] = row.continues
    assert continued == {"r1": None, "a1": None, "r2": "r1", "a2": "a1"}


async def test_sessions_of_an_older_choir_are_known_by_the_model_that_answered(
    database: Database,
) -> None:
    migrations = read_migrations(MIGRATIONS)
    names = [it.name for it in migrations]
    mine = next(number for number, name in enumerate(names) if "rehearsals" in name)
    await migrate(database, "choir_control", migrations[:mine])
    for name, model in (("old_rehearsal", "rehearsal"), ("old_real", "gpt-5")):
        await database.execute(OLD_SESSION, name)
        await database.execute(OLD_OUTPUT, name, model)
    await migrate(database, "choir_control", migrations)
    store = SessionStore(database)
    marks = {row.session_id: row.rehearsal for row in await store.page("main", None, 10)}
    assert marks == {"old_rehearsal": True, "old_real": False}


def test_the_provider_of_its_model_makes_a_session_a_rehearsal() -> None:
    model = {"model": "m", "endpoint": "http://127.0.0.1:1/v1"}
    models = {"default": model | {"provider": "rehearsal"}, "real": model | {"provider": "openai"}}
    config = Config.model_validate({"agents": {}, "workspaces": {}, "models": models})
    assert is_rehearsal(config, BOUND)
    assert not is_rehearsal(config, BOUND.model_copy(update={"llm": "real"}))
