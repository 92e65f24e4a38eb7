"""`/reset`, `/forget` and their routes: a real agent, a real memory, and what the model reads afterwards."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from choir_common.http.client import make_client
from choir_common.wire.rpc import HeartbeatRequest, HostToolRequest, HostToolResponse
from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_control.log.leases.store import Lease
from choir_control.log.retention import content_eraser
from choir_control.log.retention.reset_store import SessionReset, SessionResetStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_continuity import RecordingModel, serving
from tests.service.control.test_ledger import costs
from tests.service.control.test_memory_modes import tables_with
from tests.service.control.test_real_agent import pid_of
from tests.service.control.world import World, a_config, until
from tests.service.memory.servers import MakeMemory, make_memory

__all__ = ["make_memory"]
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def model() -> RecordingModel:
    return RecordingModel()


@pytest.fixture
async def home(
    stopped: World,
    model: RecordingModel,
    make_memory: MakeMemory,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[World]:
    """A ready choird with a memory, whose agent `main` is a real process."""
    monkeypatch.setattr(content_eraser, "INTERVAL_S", 0.2)
    await make_memory().start()
    async with serving(model) as endpoint:
        config = a_config(stopped.home)
        config["models"]["default"] = {"model": "recorder", "endpoint": endpoint}
        config["summary_timeout_ms"] = 2_000
        stopped.settings.config_file.write_text(json.dumps(config))
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        await pid_of(stopped)
        yield stopped
        await stopped.stop()


async def ask(world: World, number: int) -> None:
    await world.say(f"question {number}", f"u{number}")
    await world.delivered(number)


async def sessions(world: World) -> list[str]:
    found = (await world.get("/v1/sessions?agent=main")).json()["items"]
    return [session["session_id"] for session in found]


def read(model: RecordingModel) -> str:
    """Return all that the model read last."""
    return "\n".join(str(message["content"]) for message in model.prompts[-1])


async def until_erased(world: World, session_id: str) -> None:
    """Wait until the log of a session is erased, and see that its hashes verify."""

    async def erased() -> bool:
        return bool((await world.verify(session_id)).get("erased_at"))

    await until(erased)
    assert (await world.verify(session_id))["ok"]
    gone = await world.get(f"/v1/sessions/{session_id}/events")
    assert "question" not in gone.text


async def test_a_reset_asks_then_starts_again_with_the_rolling_summary_alone(
    home: World, model: RecordingModel
) -> None:
    model.rolling_summary = "They spoke of the blue house."
    for number in (1, 2, 3):
        await ask(home, number)
    (first,) = await sessions(home)
    await home.say("/inject also question 1", "i1")
    await home.say("/compact", "c1")
    await until(lambda: is_compacted(home, first))
    used = await calls_of(home, first)
    assert used >= 3
    asked = await home.say("/reset", "r1")
    assert "starts again" in asked.note and "Reply yes" in asked.note
    assert await sessions(home) == [first], "a question changes nothing"
    done = await home.say("yes", "r2")
    assert "has started again" in done.note or "being erased" in done.note
    await until(lambda: has_sessions(home, 2))
    await pid_of(home)
    await home.say("question 4", "u4")
    await until(lambda: has_prompts(model, 4))
    assert "question 4" in read(model) and "blue house" in read(model)
    assert all(f"question {number}" not in read(model) for number in (1, 2, 3))
    await until_erased(home, first)
    # nor in stored messages, in a typed command or in memory
    assert await tables_with(home.database, "question 1") == []
    # what the calls have used stays known, without any content
    assert await calls_of(home, first) >= used


async def calls_of(world: World, session_id: str) -> int:
    """Return how many calls of a model the ledger has of a session."""
    lines = (await costs(world, by="session")).lines
    return sum(line.calls for line in lines if line.group == session_id)


async def is_compacted(world: World, session_id: str) -> bool:
    events = await world.get(f"/v1/sessions/{session_id}/events")
    return '"memory_compacted"' in events.text


async def has_sessions(world: World, count: int) -> bool:
    return len(await sessions(world)) >= count


async def has_prompts(model: RecordingModel, count: int) -> bool:
    return len(model.prompts) >= count


async def test_a_period_is_forgotten_and_the_conversation_goes_on_with_the_rest(
    home: World, model: RecordingModel
) -> None:
    await ask(home, 1)
    since = datetime.now(UTC).isoformat()
    await ask(home, 2)
    (first,) = await sessions(home)
    path = "/v1/agents/main/memory/forget"
    shown = (await home.post(path, json={"since": since})).json()
    assert shown["conversation"] == "rest" and shown["restarts"] and shown["logs"] == [first]
    texts = [message["text"] for message in shown["messages"]]
    assert texts == ["question 2", "answer 2"] and shown["message_count"] == 2
    chosen = {"since": since, "expected_digest": shown["memory"]["digest"]}
    done = (await home.post(path, json=chosen)).json()
    assert done["memory"]["erased"]
    await pid_of(home)
    await home.say("question 3", "u3")
    await until(lambda: has_prompts(model, 3))
    words = read(model)
    assert "question 1" in words and "answer 1" in words and "question 3" in words
    assert "question 2" not in words and "answer 2" not in words
    await until_erased(home, first)


async def test_a_session_that_starts_meanwhile_copies_nothing_of_a_forgotten_period(
    home: World, model: RecordingModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = datetime.now(UTC).isoformat()
    await ask(home, 1)
    (first,) = await sessions(home)
    assert home.control is not None
    appender = home.control.services.log.appender
    append, may_append = appender.append, asyncio.Event()

    async def held(lease: Lease, request: HeartbeatRequest) -> int:
        if lease.session_id != first:
            await may_append.wait()
        return await append(lease, request)

    monkeypatch.setattr(appender, "append", held)
    assert (await home.post("/v1/agents/main/restart")).is_success
    await until(lambda: has_sessions(home, 2))
    path = "/v1/agents/main/memory/forget"
    shown = (await home.post(path, json={"since": since})).json()
    assert shown["conversation"] == "rest" and shown["restarts"]
    chosen = {"since": since, "expected_digest": shown["memory"]["digest"]}
    done = (await home.post(path, json=chosen)).json()
    assert done["memory"]["erased"]
    may_append.set()
    await until_erased(home, first)
    await home.say("question 2", "u2")
    await until(lambda: has_prompts(model, 2))
    assert "question 2" in read(model) and "question 1" not in read(model)
    assert await tables_with(home.database, "question 1") == []


async def test_what_is_forgotten_is_shown_first_and_erased_for_who_may_if_nothing_has_changed(
    home: World,
) -> None:
    path = "/v1/agents/main/memory"
    await check_who_may_erase(home)
    await home.post(f"{path}/documents", json={"text": "The safe opens with 4711.", "key": "safe"})
    nothing = await home.say("/forget an unknown thing", "f0")
    assert "contains nothing of it" in nothing.note
    asked = await home.say("/forget 4711", "f1")
    assert "1 note" in asked.note and "The safe opens with 4711." in asked.note
    assert (await home.get(f"{path}/documents/safe")).status_code == 200
    cancelled = await home.say("no", "f2")
    assert cancelled is not None
    assert (await home.get(f"{path}/documents/safe")).status_code == 200
    await home.say("/forget 4711", "f3")
    done = await home.say("yes", "f4")
    assert "Erased: 1 note from the memory of main." in done.note
    assert (await home.get(f"{path}/documents/safe")).status_code == 404
    await check_an_old_preview(home)


async def check_who_may_erase(home: World) -> None:
    """Only an admin, or the agent's own user, may erase."""
    # `second` is the conversation of `other`; `never` is that of an admin
    refused = await home.say("/reset all never", "x1", dm="second")
    assert "not expected" in refused.note
    own = await home.say("/forget 4711", "x2", dm="second")
    assert "contains nothing of it" in own.note
    reset = await home.say("/reset all", "x3", dm="second")
    assert "no conversation yet" in reset.note


async def check_an_old_preview(home: World) -> None:
    """A preview that is out of date erases nothing."""
    path = "/v1/agents/main/memory"
    await home.post(f"{path}/documents", json={"text": "Porto", "key": "one"})
    shown = (await home.post(f"{path}/forget", json={"words": "porto"})).json()
    await home.post(f"{path}/documents", json={"text": "Porto again", "key": "two"})
    stale = {"words": "porto", "expected_digest": shown["memory"]["digest"]}
    answer = await home.post(f"{path}/forget", json=stale)
    assert answer.status_code == 409 and "changed since" in answer.text
    assert (await home.get(f"{path}/documents/one")).status_code == 200
    wrong = await home.post("/v1/agents/main/reset", json={"kind": "half"})
    assert wrong.status_code == 400


async def test_an_agent_can_neither_forget_nor_reset(world: World, agent: AgentHand) -> None:
    for tool in ("choir.memory.forget", "choir.session.reset"):
        request = HostToolRequest(tool_name=tool, call_id="c1", input={"words": "x"})
        answer = HostToolResponse.model_validate_json(
            await agent.call("EXECUTE_HOST_TOOL", request)
        )
        assert answer.status == "error" and "no host tool" in str(answer.output)
    for path in ("/v1/agents/main/reset", "/v1/agents/main/memory/forget"):
        async with make_client(world.tcp) as client:
            refused = await client.post(path, json={}, headers=agent.headers)
        assert refused.status_code == 401


async def test_a_reset_session_without_a_log_is_still_the_one_that_is_continued(
    world: World, agent: AgentHand
) -> None:
    first = agent.spec.session_id
    # before the process ends: choird would start it again
    for sql in (
        "UPDATE choir_control.sessions SET status = 'stopped', ended_at = now() WHERE session_id = $1",
        "DELETE FROM choir_control.leases WHERE session_id = $1",
    ):
        await world.database.execute(sql, first)
    await world.runtime.stop("main", 0.0)
    store = SessionResetStore(world.database)
    await store.put(first, SessionReset("nothing"))
    await world.database.execute(
        "DELETE FROM choir_control.session_events WHERE session_id = $1", first
    )
    await world.post("/v1/agents/main/start", json={})
    second = await world.agent(2)
    hello = await second.hello()
    assert hello.continues == first and hello.snapshot == {"events": []}


async def test_a_later_reset_can_only_leave_less(world: World, agent: AgentHand) -> None:
    store, session_id = SessionResetStore(world.database), agent.spec.session_id
    early, late = (datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2))
    await store.put(session_id, SessionReset("rest", late))
    await store.put(session_id, SessionReset("rest", early, late))
    assert await store.get(session_id) == SessionReset("rest", early, None)
    await store.put(session_id, SessionReset("nothing"))
    await store.put(session_id, SessionReset("summary"))
    reset = await store.get(session_id)
    assert reset is not None and reset.carries == "nothing"


async def test_only_sessions_of_the_agent_itself_are_reset(world: World, agent: AgentHand) -> None:
    store, session_id = SessionResetStore(world.database), agent.spec.session_id
    assert await store.list_own("main", [session_id, "unknown"]) == [session_id]
    assert await store.list_own("other", [session_id]) == []
