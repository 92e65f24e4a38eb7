"""Compaction beside a lane that goes on, what failures leave, and what a restart remembers."""

import asyncio
from datetime import UTC, datetime

import orjson
import pytest
from pydantic import JsonValue
from starlette.responses import Response

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.wire.config import Budgets, ModelConfig
from choir_common.wire.events import (
    CarriedEvent,
    EventPayload,
    MemoryCompacted,
    ModelOutput,
    ReferenceSummary,
    Reply,
    SessionStarted,
    SessionStopped,
    Snapshot,
    ToolResultCommitted,
    UserMessageStarted,
    parse_payload,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.signals import CompactSignal, ShutdownSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import DM, ControlStandIn, run_control
from tests.service.agent.gated_model import Gate, run_gated
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, calls, document, run_scripted, says

MARK = "They spoke of the blue house"
DELTA = orjson.dumps({"memory_delta": {"mode": "append", "summary_update": MARK}}).decode()
FOLDS: JsonObject = {"when": {"lane": "compaction"}, "then": [{"say": DELTA}]}
REMEMBERS: JsonObject = {"when": {"system_contains": MARK}, "then": [{"say": "I remember"}]}


def score(*rules: JsonObject) -> Score:
    return Score.model_validate({"rules": list(rules), "otherwise": [{"say": "Yes."}]})


def compacted(control: ControlStandIn) -> list[MemoryCompacted]:
    return [p for p in control.payloads() if isinstance(p, MemoryCompacted)]


def fold(control: ControlStandIn) -> SessionState:
    state = SessionState()
    for event in control.events:
        payload = parse_payload(event)
        state = apply_event(
            state, CommittedEvent(event.rev, event.hash, event.lane, event.at, payload)
        )
    return state


async def talk(control: ControlStandIn, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await control.say(f"message {number}", f"inb_{number}")
        await control.replied(number)


async def test_old_turns_are_folded_and_the_next_prompt_holds_the_summary_instead() -> None:
    async with run_rehearsal(score(FOLDS, REMEMBERS)) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await talk(control, 1, 5)
            await control.until(lambda: bool(compacted(control)))
            await talk(control, 6, 6)
    (first, *_) = compacted(control)
    assert first.target == "edge" and MARK in first.summary.summary
    assert first.prompt_tokens > 0 and not first.failed
    assert control.replies()[-1].text == "I remember"


async def test_the_lane_goes_on_while_its_compaction_is_under_way() -> None:
    gate = Gate("compaction")
    async with run_gated(score(FOLDS), gate) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await talk(control, 1, 10)
            await gate.reached()
            assert not compacted(control)
            gate.open()
            await control.until(lambda: bool(compacted(control)))
            await talk(control, 11, 11)
    # what came meanwhile is not covered by it
    assert compacted(control)[0].through_rev < control.types().index("memory_compacted") - 8


async def test_a_failed_compaction_changes_nothing_but_is_tried_again_and_counted() -> None:
    unknown = '{"memory_delta": {"summary_update": "x", "add_references": ["ffffffffff"]}}'
    answers = ["no thanks", unknown, DELTA]

    def script(asked: Asked) -> Response:
        if asked.lane == "compaction":
            return says(answers[min(asked.number, len(answers)) - 1])
        return says("Yes.")

    async with run_scripted(script) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await talk(control, 1, 8)
            said = 8
            async with asyncio.timeout(60):
                # each turn that ends is a try, unless one is under way; on a slow machine the window
                # may reach its limit before that, and is folded without the model
                while not any(p.summary.summary == MARK for p in compacted(control)):
                    said += 1
                    await talk(control, said, said)
    first, second = [p for p in compacted(control) if p.failed]
    assert "JSON" in first.failed and first.through_rev == 0 and not first.summary.summary
    assert "is not the hash" in second.failed and second.prompt_tokens == 10
    *_, folded = compacted(control)
    assert folded.summary.summary == MARK and folded.through_rev > 0


async def test_when_no_model_can_fold_the_oldest_turns_roll_off_and_stay_searchable() -> None:
    query = {"store": "working", "query": "treasure"}

    def script(asked: Asked) -> Response:
        if asked.lane == "compaction":
            return Response("gone", 500)
        if asked.turn.user_text.startswith("find"):
            if asked.turn.last_role == "user":
                return calls(("choir_memory_query", query))
            return says(asked.turn.results[-1].text)
        return says("Yes.")

    async with run_scripted(script) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await control.say("the treasure is under the oak", "inb_1")
            await control.replied(1)
            await talk(control, 2, 12)
            await control.until(lambda: bool(compacted(control)))
            await control.say("find it", "inb_13")
            replies = await control.replied(13)
    assert compacted(control)[0].model == "" and compacted(control)[0].through_rev > 3
    assert "under the oak" in replies[-1].text


async def test_a_prompt_the_provider_refuses_as_too_long_is_shortened_once_and_asked_again() -> (
    None
):
    overflow = document({"error": {"message": "maximum context length is 10 tokens", "code": 400}})

    def script(asked: Asked) -> Response:
        if asked.lane == "compaction":
            return says(DELTA)
        refused = asked.turn.user_text == "message 5" and MARK not in asked.turn.system_text
        return overflow if refused else says("Yes.")

    async with run_scripted(script) as model, run_control(model) as control:
        async with running_agent(control):
            await talk(control, 1, 5)
    assert len(compacted(control)) == 1
    assert [reply.kind for reply in control.replies()] == ["answer"] * 5


async def test_a_tool_call_and_a_signal_each_ask_for_a_compaction_of_their_lane() -> None:
    call: JsonObject = {
        "when": {"contains": "make room"},
        "then": [{"call": {"name": "choir.memory.compact"}}, {"say": "done"}],
    }
    async with run_rehearsal(score(FOLDS, call)) as model, run_control(model) as control:
        async with running_agent(control):
            await talk(control, 1, 3)
            await control.say("make room", "inb_4")
            await control.replied(4)
            await control.until(lambda: len(compacted(control)) == 1)
            await talk(control, 5, 6)
            await control.tell(CompactSignal())
            await control.until(lambda: len(compacted(control)) == 2)
    result = next(p for p in control.payloads() if isinstance(p, ToolResultCommitted))
    assert result.status == "success"
    assert compacted(control)[1].summary.summary == f"{MARK}\n{MARK}"


async def test_a_spent_budget_stops_compaction_and_no_answer_is_lost_by_it() -> None:
    async with run_rehearsal(score(FOLDS)) as model, run_control(model) as control:
        control.bound = {"event_window": 4}
        control.budgets = Budgets(total_session_tokens=200_000)
        async with running_agent(control):
            await talk(control, 1, 4)
            await control.until(lambda: bool(compacted(control)))
    usage = sum(
        p.prompt_tokens + p.completion_tokens
        for p in control.payloads()
        if isinstance(p, ModelOutput | MemoryCompacted)
    )
    assert 0 < usage < 200_000


@pytest.mark.parametrize("lost", range(6))
async def test_a_crash_after_any_event_keeps_the_summary_that_was_durable(lost: int) -> None:
    async with run_rehearsal(score(FOLDS, REMEMBERS)) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await talk(control, 1, 5)
            await control.until(lambda: bool(compacted(control)))
        kept = control.types().index("memory_compacted") + 1 - min(lost, 3)
        if lost > 3:
            kept = len(control.events) - (lost - 3)
        had = "memory_compacted" in control.types()[:kept]
        control.crash_and_cut(kept)
        async with running_agent(control):
            await control.say("and now?", "inb_now")
            await control.until(lambda: any(r.answers == "inb_now" for r in control.replies()))
            if had:
                assert control.replies()[-1].text == "I remember"
            # what was cut off is folded again
            await control.until(lambda: bool(compacted(control)))


async def test_a_long_session_goes_on_from_its_newest_snapshot() -> None:
    async with run_rehearsal(score(FOLDS, REMEMBERS)) as model, run_control(model) as control:
        control.bound = {"event_window": 8}
        async with running_agent(control):
            await talk(control, 1, 75)
            await control.until(lambda: "snapshot" in control.types())
        control.crash_and_cut(len(control.events))
        tail = len(control._tail())
        async with running_agent(control):
            await talk(control, 76, 76)
    snapshots = [p for p in control.payloads() if isinstance(p, Snapshot)]
    assert snapshots and tail < 150
    assert control.replies()[-1].text == "I remember"


async def test_a_stop_in_good_order_ends_with_a_summary_of_each_long_conversation() -> None:
    told = {"summary": "About a house.", "topics": [{"title": "House", "text": "It is blue."}]}
    sums_up: JsonObject = {
        "when": {"lane": "summary"},
        "then": [{"say": f"```json\n{orjson.dumps(told).decode()}\n```"}],
    }
    of_phone: JsonObject = {
        "when": {"lane": "summary", "contains": "on the phone"},
        "then": [{"say": "About a phone."}],
    }
    async with run_rehearsal(score(of_phone, sums_up)) as model, run_control(model) as control:
        async with running_agent(control) as agent:
            await talk(control, 1, 1)
            for number, dm in enumerate(("tablet", "phone", "phone")):
                await control.say(f"on the {dm}", f"further_{number}", dm=dm)
            await control.replied(4)
            await control.tell(ShutdownSignal(reason="enough"))
            assert await agent == 0
    last = control.payloads()[-1]
    assert isinstance(last, SessionStopped)
    assert last.summary == "About a house."
    assert [topic.title for topic in last.topics] == ["House"]
    # a single message, as at the tablet, is quoted by memory
    assert {it.lane: it.summary for it in last.conversations} == {"edge:phone": "About a phone."}
    usages = [event.lane for event in control.events if event.type == "usage_recorded"]
    assert sorted(usages) == ["edge", "edge:phone"]


@pytest.mark.parametrize("turns", [0, 1])
async def test_a_session_without_a_turn_or_a_model_in_time_stops_without_a_summary(
    turns: int,
) -> None:
    hangs: JsonObject = {"when": {"lane": "summary"}, "then": [{"hang": True}]}
    async with run_rehearsal(score(hangs)) as model, run_control(model) as control:
        control.bound = {"summary_timeout_ms": 300}
        async with running_agent(control) as agent:
            await control.until(lambda: bool(control.events))
            await talk(control, 1, turns)
            await control.tell(ShutdownSignal(reason="enough"))
            async with asyncio.timeout(60):
                assert await agent == 0
    last = control.payloads()[-1]
    assert isinstance(last, SessionStopped) and last.summary is None


async def test_a_session_that_continues_another_remembers_it() -> None:
    async with run_rehearsal(score(REMEMBERS)) as model, run_control(model) as control:
        control.continues = "ses_yesterday"
        control.handed_down = {"events": yesterday()}
        async with running_agent(control):
            await talk(control, 1, 1)
    started = control.payloads()[0]
    assert isinstance(started, SessionStarted)
    assert started.seed[0].summary.summary == MARK
    assert started.seed[0].summary.referenced_sessions == ("ses_yesterday",)
    assert control.replies()[0].text == "I remember"


async def test_a_session_that_died_while_it_copied_goes_on_with_the_rest() -> None:
    async with run_rehearsal(score(REMEMBERS)) as model, run_control(model) as control:
        control.continues = "ses_yesterday"
        control.handed_down = {"events": yesterday()}
        async with running_agent(control):
            await control.until(lambda: control.types().count("carried_event") == 3)
        whole = control.types()
        assert whole == ["session_started", "carried_event", "carried_event", "carried_event"]
        control.crash_and_cut(2)
        async with running_agent(control):
            await control.until(lambda: "session_resumed" in control.types())
    assert control.types() == [*whole, "session_resumed"]
    revs = [payload.rev for payload in control.payloads() if isinstance(payload, CarriedEvent)]
    assert revs == [2, 3, 4]


def yesterday() -> list[JsonValue]:
    """Return the log of a session with one turn, in which something had been folded before."""
    words = ReferenceSummary(summary=MARK)
    payloads: list[EventPayload] = [
        SessionStarted(agent_id="main", epoch=1),
        UserMessageStarted(turn_id="t", inbox_id="i", dm=DM, text="what a day"),
        ModelOutput(turn_id="t", text="indeed", model="m", finish_reason="stop"),
        Reply(turn_id="t", dm=DM, text="indeed", kind="answer", answers="i"),
        MemoryCompacted(target="edge", through_rev=1, delta={}, summary=words),
        SessionStopped(reason="asked"),
    ]
    head, log = LogHead(), list[JsonValue]()
    for payload in payloads:
        event = link_event(head, "ses_yesterday", "edge", payload, datetime.now(UTC))
        head = head_of(event)
        log.append(event.model_dump(mode="json"))
    return log


async def test_a_core_job_is_folded_by_its_own_model_and_keeps_its_briefing() -> None:
    seen: list[str] = []

    def script(asked: Asked) -> Response:
        if asked.lane == "compaction":
            seen.append(asked.turn.system_text)
            return says(DELTA)
        if asked.lane == "core":
            if MARK in asked.turn.system_text:
                assert "count to many" in asked.turn.user_text
                return says("counted")
            return calls(("choir_memory_query", {"store": "working", "query": f"n{asked.number}"}))
        spawn = {"job_name": "counter", "task_spec": "count to many"}
        wants = asked.turn.user_text == "go" and asked.turn.last_role == "user"
        return calls(("choir_core_spawn", spawn)) if wants else says("Yes.")

    async with run_scripted(script) as model, run_control(model) as control:
        core = ModelConfig(model="deep", endpoint=model)
        control.bound = {"event_window": 8, "core_model": core, "core_model_name": "deep"}
        async with running_agent(control):
            await control.say("go", "inb_1")
            await control.until(lambda: "core_stopped" in control.types())
    (first, *_) = [p for p in compacted(control) if p.target == "core:counter"]
    assert first.summary.summary == MARK
    assert "core job that works on one task" in seen[0]


async def test_a_job_that_ends_while_it_is_folded_leaves_no_summary_behind() -> None:
    gate = Gate("compaction")
    query: JsonObject = {
        "name": "choir.memory.query",
        "arguments": {"store": "working", "query": "x"},
    }
    steps: list[JsonValue] = [{"call": query}] * 5
    works: JsonObject = {"when": {"lane": "core"}, "then": [*steps, {"say": "counted"}]}
    spawn: JsonObject = {"job_name": "counter", "task_spec": "count to many"}
    begins: JsonObject = {
        "when": {"contains": "go", "lane": "edge"},
        "then": [{"call": {"name": "choir.core.spawn", "arguments": spawn}}, {"say": "begun"}],
    }
    rules = score(FOLDS, works, begins)
    async with run_gated(rules, gate) as model, run_control(model) as control:
        control.bound = {"event_window": 4}
        async with running_agent(control):
            await control.say("go", "inb_1")
            await control.until(lambda: "core_stopped" in control.types())
            await gate.reached()
            gate.open()
            await control.until(lambda: bool(compacted(control)))
    (only,) = compacted(control)
    stopped = control.types().index("core_stopped")
    assert stopped < control.types().index("memory_compacted")
    # it was paid for, and that is all
    assert (only.target, only.failed) == ("core:counter", "the job had ended")
    assert fold(control).summaries == ()
    assert fold(control).spent.tokens >= only.prompt_tokens > 0


async def test_nothing_follows_the_end_of_a_session_not_even_a_compaction() -> None:
    gate = Gate("compaction")
    async with run_gated(score(FOLDS), gate) as model, run_control(model) as control:
        control.bound = {"event_window": 4, "summary_timeout_ms": 0}
        async with running_agent(control) as agent:
            await talk(control, 1, 4)
            await gate.reached()
            await control.tell(ShutdownSignal(reason="enough"))
            assert await agent == 0
    assert control.types()[-1] == "session_stopped"
