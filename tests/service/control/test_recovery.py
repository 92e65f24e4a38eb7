"""What a starting agent is told: enough of its own log, or what the session before it left."""

import pytest
from pydantic import TypeAdapter

from choir_common.wire.events import (
    Cancelled,
    CarriedEvent,
    CompactionRequested,
    CoreStopped,
    Event,
    InjectedInstruction,
    SessionStarted,
    SessionStopped,
    Snapshot,
)
from choir_common.wire.rpc import HelloResponse, TerminateRequest
from choir_common.wire.signals import CancelSignal, CompactSignal, InjectSignal
from choir_control.log.eventlog import recovery_store
from choir_control.log.signals.store import SignalStore
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World

EVENTS = TypeAdapter(list[Event])


async def test_a_resumed_agent_is_given_its_log_from_the_newest_snapshots_window(
    world: World, agent: AgentHand
) -> None:
    for number in range(5):
        agent.say(f"{number}")
    agent.add(Snapshot(state={"rev": 6}, window_from=2), "session")
    agent.say("between")
    agent.add(Snapshot(state={"rev": 8}, window_from=5), "session")
    agent.say("newest")
    await agent.flush()
    world.runtime.die("main")
    hello = await (await world.agent(starts=2)).hello()
    assert [event.rev for event in hello.tail_events] == [5, 6, 7, 8, 9, 10]
    assert hello.status == "resumed" and hello.snapshot is None


async def test_a_snapshot_never_cuts_an_open_turn(world: World, agent: AgentHand) -> None:
    await world.say("a long question", "u1")
    await agent.take_up(await agent.next_message())
    agent.add(Snapshot(state={}, window_from=3), "session")
    await agent.flush()
    world.runtime.die("main")
    hello = await (await world.agent(starts=2)).hello()
    assert [event.type for event in hello.tail_events] == ["user_msg", "snapshot"]


async def test_a_log_without_a_snapshot_is_given_whole(world: World, agent: AgentHand) -> None:
    for number in range(600):
        agent.say(f"{number}", kind="notice")
    await agent.flush()
    world.runtime.die("main")
    hello = await (await world.agent(starts=2)).hello()
    assert [event.rev for event in hello.tail_events] == list(range(1, 602))


async def test_a_window_out_of_bounds_is_answered_with_the_newest_events_and_the_snapshot(
    world: World, agent: AgentHand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery_store, "MAX_EVENTS", 400)
    for number in range(450):
        agent.say(f"{number}", kind="notice")
    await agent.flush()
    agent.add(Snapshot(state={}, window_from=0), "session")
    await agent.flush()
    world.runtime.die("main")
    hello = await (await world.agent(starts=2)).hello()
    assert len(hello.tail_events) == 400 and hello.tail_events[-1].type == "snapshot"


async def stop_and_start(
    world: World, agent: AgentHand, last_words: str | None, **start: str
) -> AgentHand:
    """End the agent's session in good order and return the agent of the next one."""
    starts = len(world.runtime.specs)
    agent.add(SessionStopped(reason="asked", summary=last_words), "session")
    await agent.flush()
    await world.database.execute(
        "UPDATE choir_control.sessions SET status = 'stopping' WHERE session_id = $1",
        agent.spec.session_id,
    )
    await agent.call("TERMINATE_SELF", TerminateRequest(reason="asked"))
    world.runtime.die("main", 0)
    answer = await world.post("/v1/agents/main/start", json=start)
    assert answer.status_code == 200, answer.text
    return await world.agent(starts=starts + 1)


def handed_on(hello: HelloResponse) -> list[str]:
    """Return the types of the predecessor's events in an answer to INIT_HELLO."""
    return [event.type for event in predecessor_of(hello)]


def predecessor_of(hello: HelloResponse) -> list[Event]:
    assert hello.snapshot is not None
    return EVENTS.validate_python(hello.snapshot["events"], strict=False)


async def test_a_fresh_session_is_given_the_end_of_the_log_it_continues(
    world: World, agent: AgentHand
) -> None:
    agent.say("old")
    agent.add(Snapshot(state={"rev": 2}, window_from=2), "session")
    agent.say("newer")
    await agent.flush()
    fresh = await stop_and_start(world, agent, "We chose a colour.")
    hello = await fresh.hello()
    assert hello.status == "fresh" and hello.continues == agent.spec.session_id
    assert hello.tail_events == ()
    assert handed_on(hello) == ["reply", "snapshot", "reply", "session_stopped"]
    assert {event.session_id for event in predecessor_of(hello)} == {agent.spec.session_id}


async def test_a_session_that_died_while_it_copied_is_given_the_rest_and_later_nothing(
    world: World, agent: AgentHand
) -> None:
    fresh = await stop_and_start(world, agent, None)
    copy = CarriedEvent(
        session_id="s", rev=1, at="2026-01-01T00:00:00.000000Z", event_type="x", payload={}
    )
    fresh.add(SessionStarted(agent_id="main", epoch=1), "session")
    fresh.add(copy)
    await fresh.flush()
    world.runtime.die("main")
    resumed = await world.agent(starts=3)
    hello = await resumed.hello()
    assert hello.status == "resumed"
    assert handed_on(hello) == ["session_started", "session_stopped"]
    resumed.say("now it talks")
    await resumed.flush()
    world.runtime.die("main")
    assert (await (await world.agent(starts=4)).hello()).snapshot is None


async def abandon(world: World, agent: AgentHand) -> None:
    """Let the agent die once more than its session may be resumed."""
    await world.database.execute(
        "UPDATE choir_control.sessions SET resumes = 3 WHERE session_id = $1",
        agent.spec.session_id,
    )
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "abandoned")


async def test_a_session_without_events_is_skipped_and_an_abandoned_one_continued(
    world: World, agent: AgentHand
) -> None:
    agent.say("something worth keeping")
    await agent.flush()
    await abandon(world, agent)
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    empty = await world.agent(starts=2)
    await empty.hello()
    await abandon(world, empty)
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    hello = await (await world.agent(starts=3)).hello()
    assert hello.continues == agent.spec.session_id
    assert "reply" in handed_on(hello)


async def test_a_signal_that_a_durable_event_names_is_never_offered_again(
    world: World, agent: AgentHand
) -> None:
    signals = SignalStore(world.database)
    session = agent.spec.session_id
    first = await signals.send(session, InjectSignal(text="in French, please"))
    second = await signals.send(session, CancelSignal(job="read"))
    third = await signals.send(session, CompactSignal())
    assert (await agent.next_signal()).seq == first
    agent.add(InjectedInstruction(target="edge", turn_id=None, text="x", by="user", signal=first))
    agent.add(Cancelled(target="core:read", turn_id=None, by="user", signal=second))
    await agent.flush()
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    await resumed.hello()
    assert (await resumed.next_signal()).seq == third
    resumed.add(CompactionRequested(target="edge", signal=third))
    await resumed.flush()
    assert await signals.list_pending(session, "console", 0, 10) == []


async def test_an_event_does_away_with_no_other_sessions_signals(
    world: World, agent: AgentHand
) -> None:
    await world.post("/v1/agents/never/start", json={"dm": "second"})
    other = await world.agent(starts=2)
    await other.begin()
    signals = SignalStore(world.database)
    seq = await signals.send(agent.spec.session_id, InjectSignal(text="x"))
    message = await world.say("hello", "u1")
    [waiting] = [
        s for s in await signals.list_pending("", "console", 0, 10) if message.inbox_id in s.body
    ]
    for number in (seq, waiting.seq):
        other.add(CompactionRequested(target="edge", signal=number))
    await other.flush()
    still = await signals.list_pending(agent.spec.session_id, "console", 0, 10)
    assert {s.seq for s in still} == {seq, waiting.seq}


async def test_a_job_that_ended_gives_a_session_its_resumes_back(
    world: World, agent: AgentHand
) -> None:
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    await resumed.hello()

    async def resumes() -> int:
        found = await world.database.fetchval(
            "SELECT resumes FROM choir_control.sessions WHERE session_id = $1",
            agent.spec.session_id,
        )
        return int(found)

    assert await resumes() == 1
    resumed.add(CoreStopped(job_id="j", job_name="read", outcome="completed"), "core:read")
    await resumed.flush()
    assert await resumes() == 0
