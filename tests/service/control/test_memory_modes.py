"""Incognito conversations and recall: the real agent on a real control, without the memory service."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.memory_modes import MemoryMode
from choir_common.wire.operator import SessionView
from choir_common.wire.rpc import ResourceBindings
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_control.agents.sessions.record import REASON_RESTART, SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.images.builder import SessionImage
from choir_control.log.archiving.store import QuietTimes
from choir_control.log.leases.authentication import create_lease_token
from choir_control.log.retention.content_store import SessionContentStore
from choir_control.log.retention.incognito_store import IncognitoStore
from choir_control.log.retention.log_store import ErasedLogStore
from choir_control.log.retention.reset_store import Carries, SessionReset, SessionResetStore
from tests.service.control.test_continuity import RecordingModel, serving
from tests.service.control.test_real_agent import pid_of
from tests.service.control.world import World, until
from tests.support.nightly import nightly_from

CANARY = "zanzibarquokka"

BOUND = ResourceBindings(workspace="main", llm="default", dm="console")
END = """
UPDATE choir_control.sessions SET status = 'stopped', end_reason = $2, ended_at = clock_timestamp(),
    head_rev = 1 WHERE session_id = $1
"""
EVENT = """
INSERT INTO choir_control.session_events (session_id, rev, lane, type, payload, at, hash_prev, hash)
VALUES ($1, 1, 'edge', 'tool_result_committed',
        '{"artifact_ref": ".choirtmp/artifacts/1.json", "text": "zanzibarquokka"}', 'then', 'p', $2)
"""
MESSAGE = """
INSERT INTO choir_control.inbox
    (inbox_id, gateway, update_id, dm, text, sent_at, session_id, consumed_rev, answered_rev)
VALUES ('in_1', 'console', 'u1', 'console', 'zanzibarquokka', now(), $1, 1, 1)
"""
RECEIVED = """
INSERT INTO choir_control.received_files (inbox_id, workspace, path)
VALUES ('in_1', 'main', '.choirtmp/recv/photo.jpg')
"""
REPLY = """
INSERT INTO choir_control.outbox (dm, gateway, agent_id, session_id, rev, kind, text, at, status)
VALUES ('console', 'console', 'main', $1, 1, 'answer', 'zanzibarquokka', now(), 'sending')
"""
REQUEST = """
INSERT INTO choir_control.pending_approvals
    (approval_id, session_id, agent_id, call_id, request_type, payload)
VALUES ('appr_1', $1, 'main', 'call_1', 'tool', '{"text": "zanzibarquokka"}')
"""
IMAGE = SessionImage(None)


@pytest.fixture
async def store(database: Database) -> AsyncIterator[SessionStore]:
    await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
    yield SessionStore(database)


async def end_session(
    store: SessionStore,
    database: Database,
    name: str,
    mode: MemoryMode,
    reason: str = "asked",
) -> SessionRow:
    """Create a session and end it with one event in its log; return it as it was created."""
    row = await store.create(
        name, "main", BOUND, (), "console", create_lease_token(), IMAGE, memory_mode=mode
    )
    await database.execute(EVENT, name, "0" * 64)
    await database.execute(END, name, reason)
    return row


async def test_a_recorded_session_never_continues_an_incognito_one(
    store: SessionStore, database: Database
) -> None:
    modes: dict[str, MemoryMode] = {
        "one": "local",
        "two": "incognito",
        "three": "incognito",
        "four": "incognito",
        "five": "local",
        "six": "synced",
    }
    reasons = {"two": REASON_RESTART}
    continued = {}
    for name, mode in modes.items():
        row = await end_session(store, database, name, mode, reasons.get(name, "asked"))
        continued[name] = row.continues
        assert (row.memory_mode, row.view().memory_mode) == (mode, mode)
    # two and four continue what was recorded, three what was said incognito before the restart
    assert continued == {
        "one": None,
        "two": "one",
        "three": "two",
        "four": "one",
        "five": "one",
        "six": "five",
    }


async def test_a_restarted_incognito_session_is_erased_when_the_next_one_has_copied_it(
    store: SessionStore, database: Database
) -> None:
    erasure = IncognitoStore(database, [REASON_RESTART])

    async def due() -> list[str]:
        return [session.log.session_id for session in await erasure.due()]

    await end_session(store, database, "stopped", "incognito")
    await end_session(store, database, "restarted", "incognito", REASON_RESTART)
    assert await due() == ["stopped"]
    await store.create(
        "next", "main", BOUND, (), "console", create_lease_token(), IMAGE, memory_mode="incognito"
    )
    assert await due() == ["stopped"]
    await database.execute(EVENT, "next", "1" * 64)
    assert await due() == ["stopped", "restarted"]
    # while the copies may still come, and when none has come for a minute
    for age, is_due in ((10, False), (70, True)):
        await database.execute(
            "WITH head AS (UPDATE choir_control.sessions SET head_rev = 1 WHERE session_id = 'next') "
            "UPDATE choir_control.session_events SET type = 'carried_event', "
            "stored_at = now() - make_interval(secs => $1) WHERE session_id = 'next'",
            age,
        )
        assert ("restarted" in await due()) == is_due


@pytest.mark.parametrize("carries", ["nothing", "summary", "rest"])
async def test_a_reset_incognito_session_waits_only_for_what_the_next_one_may_copy(
    store: SessionStore, database: Database, carries: Carries
) -> None:
    await end_session(store, database, "reset", "incognito", REASON_RESTART)
    await SessionResetStore(database).put("reset", SessionReset(carries))
    erasure = IncognitoStore(database, [REASON_RESTART])
    assert len(await erasure.due()) == (1 if carries == "nothing" else 0)
    if carries == "nothing":
        await ErasedLogStore(database).store_hashes("reset")
    row = await store.create(
        "next", "main", BOUND, (), "console", create_lease_token(), IMAGE, memory_mode="incognito"
    )
    assert row.continues == "reset"
    await database.execute(
        EVENT.replace("tool_result_committed", "session_started"), "next", "1" * 64
    )
    await database.execute(
        "UPDATE choir_control.sessions SET head_rev = 1 WHERE session_id = 'next'"
    )
    assert len(await erasure.due()) == (0 if carries == "rest" else 1)


async def test_everything_of_a_session_is_erased_and_a_delivery_is_waited_for(
    store: SessionStore, database: Database
) -> None:
    await end_session(store, database, "private", "incognito")
    for sql in (MESSAGE, REPLY, REQUEST):
        await database.execute(sql, "private")
    await database.execute(RECEIVED)
    erasure = IncognitoStore(database, [])
    (session,) = await erasure.due()
    content = SessionContentStore(database)
    files = await content.find_files(session)
    assert {path for _, path in files.staged} == {
        ".choirtmp/recv/photo.jpg",
        ".choirtmp/artifacts/1.json",
    }
    await ErasedLogStore(database).store_hashes("private")
    await ErasedLogStore(database).erase_batch("private", 10)
    assert not await content.erase_rows("private")
    assert await tables_with(database, CANARY) == ["outbox"]
    assert [it.log.session_id for it in await erasure.due()] == ["private"]
    await database.execute("UPDATE choir_control.outbox SET status = 'delivered'")
    assert await content.erase_rows("private")
    assert await tables_with(database, CANARY) == [] and await erasure.due() == []


async def test_a_reset_of_a_recorded_session_erases_all_but_a_change_that_is_in_effect(
    store: SessionStore, database: Database
) -> None:
    await end_session(store, database, "said", "local")
    for sql in (MESSAGE, REQUEST):
        await database.execute(sql, "said")
    await database.execute(RECEIVED)
    await database.execute(
        "INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id, "
        "request_type, payload) VALUES ('appr_2', 'said', 'main', 'call_2', 'setting', '{}')"
    )
    await database.execute(
        "INSERT INTO choir_control.approval_effects (approval_id, digest, stage) "
        "VALUES ('appr_2', 'd', 'applied')"
    )
    resets = SessionResetStore(database)
    await resets.put("said", SessionReset("nothing"))
    assert await resets.list_due() == [], "memory lacks the end of the session"
    await database.execute("UPDATE choir_control.sessions SET archived_at = now()")
    (session,) = await resets.list_due()
    content = SessionContentStore(database)
    assert len((await content.find_files(session)).staged) == 2
    await ErasedLogStore(database).store_hashes("said")
    await ErasedLogStore(database).erase_batch("said", 10)
    assert await content.erase_rows("said") and await resets.list_due() == []
    assert await tables_with(database, CANARY) == []
    left = await database.fetch("SELECT approval_id FROM choir_control.pending_approvals")
    assert [row["approval_id"] for row in left] == ["appr_2"]


@pytest.fixture
async def model() -> RecordingModel:
    return RecordingModel()


@pytest.fixture
async def home(stopped: World, model: RecordingModel) -> AsyncIterator[World]:
    """A ready choird whose agent `main` is a real process."""
    async with serving(model) as endpoint:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"] = {"model": "recorder", "endpoint": endpoint}
        path.write_text(json.dumps(config))
        stopped.settings = stopped.settings.model_copy(update={"agents_stop_s": 45.0})
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        await pid_of(stopped)
        yield stopped
        await stopped.stop()


async def ask(world: World, text: str) -> None:
    """Send a message and wait until it is answered and delivered."""
    accepted = await world.say(text, os.urandom(8).hex())

    async def answered() -> bool:
        return any(message.answers == accepted.inbox_id for message in world.gateway.delivered)

    await until(answered)


async def switch(world: World, mode: str) -> dict[str, Any]:
    """Switch the memory mode; repeat while the last turn is still being finished."""
    answers: list[httpx2.Response] = []

    async def switched() -> bool:
        answers.append(await world.put("/v1/agents/main/memory/mode", json={"mode": mode}))
        return answers[-1].status_code != 409

    await until(switched)
    assert answers[-1].status_code == 200, answers[-1].text
    view: dict[str, Any] = answers[-1].json()
    return view


async def session_view(world: World, session_id: str) -> SessionView:
    return SessionView.model_validate_json((await world.get(f"/v1/sessions/{session_id}")).content)


async def tables_with(database: Database, word: str) -> list[str]:
    """Return the tables of control and memory that have the word anywhere in a row."""
    names = await database.fetch(
        "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema LIKE 'choir%'"
    )
    found = []
    for schema, name in names:
        sql = f"SELECT count(*) FROM {schema}.{name} AS t WHERE t::text LIKE $1"
        if await database.fetchval(sql, f"%{word}%"):
            found.append(name)
    return found


def files_with(home: Path, word: str) -> list[str]:
    return [
        str(path.relative_to(home))
        for path in home.rglob("*")
        if path.is_file() and not path.is_symlink() and word.encode() in path.read_bytes()
    ]


async def until_erased(world: World, session_id: str) -> None:
    async def erased() -> bool:
        view = (await world.get(f"/v1/sessions/{session_id}/verify")).json()
        return view["erased_at"] is not None and not await tables_with(world.database, CANARY)

    await until(erased)


async def test_what_is_said_incognito_is_nowhere_afterwards_and_the_hashes_verify(
    home: World, model: RecordingModel
) -> None:
    await ask(home, "the harmless word")
    local = (await home.get("/v1/agents/main")).json()["session_id"]
    view = await switch(home, "guest")
    assert view["mode"] == "incognito" and view["session_id"] != local and not view["recall"]
    await ask(home, f"my secret is {CANARY}")
    await home.say(f"/inject {CANARY} again", "inject")
    assert await tables_with(home.database, CANARY)
    private = view["session_id"]
    # it is never sent to memory
    control = home.control
    assert control is not None
    pending = await control.services.log.archives.list_pending(0, 10, QuietTimes({}, 0.0))
    assert private not in {session.session_id for session in pending}
    # an operator switched, so the user is told
    assert any("operator" in text and "incognito" in text for text in home.gateway.texts)
    # what was said before is still in the prompt, and the model knows that nothing is remembered
    assert "harmless" in str(model.prompts[-1]) and "# Incognito" in str(model.prompts[-1][0])
    assert "switched this conversation to incognito" not in str(model.prompts[0][0])
    events = (await home.get(f"/v1/sessions/{private}/events")).json()["items"]
    changed = [event["payload"] for event in events if event["type"] == "memory_mode_changed"]
    assert changed == [{"mode": "incognito", "previous": "local"}]

    back = await switch(home, "local")
    await until_erased(home, private)
    assert files_with(home.home, CANARY) == []
    assert (await session_view(home, private)).memory_mode == "incognito"
    verification = await home.verify(private)
    assert verification["ok"] and verification["events"] == verification["head_rev"] > 5
    gone = await home.get(f"/v1/sessions/{private}/events")
    assert gone.status_code == 404 and "incognito" in gone.text

    assert (await session_view(home, back["session_id"])).continues == local
    await ask(home, "what did I say?")
    assert "harmless" in str(model.prompts[-1]) and CANARY not in str(model.prompts[-1])
    events = (await home.get(f"/v1/sessions/{back['session_id']}/events")).json()["items"]
    changed = [event["payload"] for event in events if event["type"] == "memory_mode_changed"]
    assert changed == [{"mode": "local", "previous": "incognito"}]


async def restarted(home: World, model: RecordingModel, first: str) -> str:
    """Restart the agent; return its next session, which continues the first and is incognito, too."""
    assert (await home.post("/v1/agents/main/restart")).status_code == 200
    await ask(home, "and now?")
    assert CANARY in str(model.prompts[-1])
    view = (await home.get("/v1/agents/main")).json()
    second = str(view["session_id"])
    assert second != first and view["memory_mode"] == "incognito"

    async def first_erased() -> bool:
        return (await home.verify(first))["erased_at"] is not None

    await until(first_erased)
    return second


@pytest.mark.parametrize("restarts", nightly_from(1, [False, True]))
async def test_a_crash_and_a_restart_keep_an_incognito_conversation_and_a_stop_ends_it(
    home: World, model: RecordingModel, restarts: bool
) -> None:
    first = (await switch(home, "incognito"))["session_id"]
    await ask(home, f"my secret is {CANARY}")
    os.kill(await pid_of(home), signal.SIGKILL)
    await ask(home, "do you still know it?")
    assert CANARY in str(model.prompts[-1])
    assert (await home.get("/v1/agents/main")).json()["session_id"] == first

    second = await restarted(home, model, first) if restarts else first
    for verb in ("stop", "start"):
        assert (await home.post(f"/v1/agents/main/{verb}", json={})).status_code == 200
    await until_erased(home, second)
    await ask(home, "and after a stop?")
    assert CANARY not in str(model.prompts[-1])
    assert (await home.get("/v1/agents/main")).json()["memory_mode"] == "incognito"


async def test_commands_show_and_switch_mode_and_recall_but_not_while_a_message_is_being_answered(
    home: World, model: RecordingModel
) -> None:
    await check_commands(home)
    model.hold = asyncio.Event()
    await home.say("think about it", "slow")

    async def thinking() -> bool:
        return model.waiting > 0

    await until(thinking)
    refused = await home.put("/v1/agents/main/memory/mode", json={"mode": "local"})
    assert refused.status_code == 409 and "still incognito" in refused.text
    model.hold.set()
    unknown = await home.put("/v1/agents/main/memory/mode", json={"mode": "secret"})
    assert unknown.status_code == 400 and "guest" in unknown.text


async def check_commands(home: World) -> None:
    """Show and switch mode and recall in a conversation, which is incognito afterwards."""
    assert "Memory: local, recall on." in (await home.say("/memory", "1")).note
    assert "recall off" in (await home.say("/recall off", "2")).note
    assert "recall off" in (await home.say("/status", "3")).note
    assert "are on, off, default" in (await home.say("/recall maybe", "4")).note
    assert "recall on" in (await home.say("/recall default", "5")).note
    note = (await home.say("/memory incognito", "6")).note
    assert "incognito" in note

    async def told() -> bool:
        shown = [note, *home.gateway.texts]
        return any("What was said before stays as it was" in text for text in shown)

    await until(told)
    for command in ("/status", "/memory", "/start"):
        said = await home.say(command, f"shown by {command}")
        assert "Memory: incognito" in said.note
    listed = (await home.say("/agent list", "list")).note
    assert "incognito" in listed
    dms = {dm["name"]: dm for dm in (await home.get("/v1/dms")).json()["items"]}
    assert dms["console"]["memory_mode"] == "incognito"
