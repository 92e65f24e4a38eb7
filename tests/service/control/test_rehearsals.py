"""Sessions with the scripted rehearsal model stand apart: no session with a real model continues one."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.config import Config
from choir_common.wire.memory_sessions import EraseSession, SessionErased
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.sessions.record import SessionRow, is_rehearsal
from choir_control.agents.sessions.store import SessionStore
from choir_control.images.builder import SessionImage
from choir_control.log.leases.authentication import create_lease_token
from tests.service.control.world import World
from tests.support.postgres import PASSWORD, fresh_database

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
    image = SessionImage(None)
    row = await store.create(
        session_id, "main", BOUND, (), "g", create_lease_token(), image, rehearsal=rehearsal
    )
    await database.execute(OLD_OUTPUT, session_id, "rehearsal" if rehearsal else "gpt-5")
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
    postgres: str,
) -> None:
    migrations = read_migrations(MIGRATIONS)
    names = [it.name for it in migrations]
    mine = next(number for number, name in enumerate(names) if "rehearsals" in name)
    async with (
        fresh_database(postgres) as dsn,
        Database(dsn, PASSWORD, size=2, application="test") as database,
    ):
        await migrate(database, "choir_control", migrations[:mine])
        for name, model in (("old_rehearsal", "rehearsal"), ("old_real", "gpt-5")):
            await database.execute(OLD_SESSION, name)
            await database.execute(OLD_OUTPUT, name, model)
        await migrate(database, "choir_control", migrations)
        store = SessionStore(database)
        marks = {row.session_id: row.rehearsal for row in await store.list_page("main", None, 10)}
    assert marks == {"old_rehearsal": True, "old_real": False}


async def test_a_rehearsal_that_was_left_open_is_not_gone_on_with_by_a_real_model(
    stopped: World,
) -> None:
    think_with(stopped, "rehearsal")
    await stopped.start()
    rehearsal = await stopped.agent()
    await rehearsal.begin()
    await stopped.say("hello", "1")
    await rehearsal.take_up(await rehearsal.next_message())
    stopped.hurry.set()  # its agent is killed in the middle of the turn
    await stopped.stop()

    think_with(stopped, "openai")
    async with memory_of(stopped) as erased:
        await stopped.start()
        real = await stopped.agent()
        # before the real model's agent runs, which could be reminded of it
        assert erased == [rehearsal.spec.session_id]
    assert real.spec.session_id != rehearsal.spec.session_id
    store = SessionStore(stopped.database)
    before, now = [await store.get(it.spec.session_id) for it in (rehearsal, real)]
    assert before is not None and before.rehearsal and before.status == "stopped"
    assert now is not None and not now.rehearsal and now.continues is None


@contextlib.asynccontextmanager
async def memory_of(world: World) -> AsyncIterator[list[str]]:
    """Play the memory service, as far as sessions are erased; yield those that were."""
    erased: list[str] = []

    async def erase(asked: EraseSession) -> SessionErased:
        erased.append(asked.session_id)
        return SessionErased(documents=0)

    door = Endpoint(subjects.erase_session(), EraseSession, erase)
    async with world.bus.serve("memory", "1.0.0", door):
        yield erased


def think_with(world: World, provider: str) -> None:
    """Have the model `default` be one of this provider."""
    config = json.loads(world.settings.config_file.read_text())
    config["models"]["default"]["provider"] = provider
    world.settings.config_file.write_text(json.dumps(config))


def test_the_provider_of_its_model_makes_a_session_a_rehearsal() -> None:
    model = {"model": "m", "endpoint": "http://127.0.0.1:1/v1"}
    models = {"default": model | {"provider": "rehearsal"}, "real": model | {"provider": "openai"}}
    config = Config.model_validate({"agents": {}, "workspaces": {}, "models": models})
    assert is_rehearsal(config, BOUND)
    assert not is_rehearsal(config, BOUND.model_copy(update={"llm": "real"}))
