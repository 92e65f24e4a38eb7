"""A session with a core job goes on after a crash at any event: one end, one report, no doubled effect
(GUARANTEES 1, 2 and 3; row R1 for the agent alone).
"""

import asyncio
from datetime import datetime, timedelta

import pytest

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState, dump_state, load_state, state_digest
from choir_common.eventlog.chain import LogHead, find_break, head_of, link_event
from choir_common.wire.events import (
    CoreStarted,
    CoreStopped,
    Event,
    InjectedInstruction,
    Reply,
    ToolResultCommitted,
    parse_payload,
)
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.ledger import ledger, undo_what_was_not_committed
from tests.service.agent.running_agent import running_agent
from tests.support.nightly import nightly_but_every

RESUMED = "session_resumed"
LEDGER = {"name": "choir.exec", "arguments": {"command": "echo done >> ledger"}}
SPAWN = {"name": "choir.core.spawn", "arguments": {"job_name": "worker", "task_spec": "keep books"}}
REPORT = {
    "name": "choir.core.report",
    "arguments": {"kind": "progress", "body": {"phase": "half way"}},
}
SCORE = Score.model_validate(
    {
        "rules": [
            {
                "when": {"lane": "core"},
                "then": [{"call": REPORT}, {"call": LEDGER}, {"say": "the books are kept"}],
            },
            {
                "when": {"lane": "edge", "contains": "keep"},
                "then": [{"call": SPAWN}, {"say": "the job runs"}],
            },
        ],
    }
)
EVENTS = 25
"""Of the whole session: more than any run makes before its report, so that every place is tried."""


def of(control: ControlStandIn, kind: type) -> list[object]:
    return [p for p in control.payloads() if isinstance(p, kind)]


def reports(control: ControlStandIn) -> list[Reply]:
    return [reply for reply in control.replies() if reply.kind == "report"]


def complete(control: ControlStandIn) -> bool:
    return bool(reports(control)) and any(reply.answers for reply in control.replies())


async def run_to_the_end(control: ControlStandIn) -> None:
    await control.say("keep my books")
    async with running_agent(control):
        await control.until(lambda: complete(control))
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("kept", nightly_but_every(3, range(EVENTS + 1)))
async def test_a_session_with_a_job_cut_off_after_any_event_ends_with_one_end_and_one_report(
    kept: int,
) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        control.crash_and_cut(kept)
        undo_what_was_not_committed(control)
        async with running_agent(control):
            await control.until(lambda: complete(control))
            await asyncio.sleep(0.05)
        finished = [p.call_id for p in control.payloads() if isinstance(p, ToolResultCommitted)]
        assert len(of(control, CoreStarted)) == 1
        assert [p.outcome for p in control.payloads() if isinstance(p, CoreStopped)] == [
            "completed"
        ]
        assert len(reports(control)) == 1
        assert len([reply for reply in control.replies() if reply.answers]) == 1
        assert len(finished) == len(set(finished)) == 3
        assert ledger(control) == 1
        assert find_break(control.events) is None


@pytest.mark.parametrize("after", range(6))
async def test_a_question_that_a_crash_cut_off_is_asked_once_and_its_answer_is_awaited(
    after: int,
) -> None:
    need = {"name": "choir.core.report", "arguments": {"kind": "need_info", "body": {"m": "hue?"}}}
    rule = {"when": {"lane": "core"}, "then": [{"call": need}, {"say": "painted: {user}"}]}
    async with run_rehearsal(Score.model_validate({"rules": [rule]})) as model:
        async with run_control(model) as control:
            async with running_agent(control):
                await control.say("#spawn painter: paint", "inb_1")
                await control.until(lambda: bool(reports(control)))
            control.crash_and_cut(control.types().index("core_reported") + after)
            async with running_agent(control):
                await control.until(lambda: bool(reports(control)))
                assert len(reports(control)) == 1
                await control.say("#inject painter: take red", "inb_2")
                await control.until(lambda: len(reports(control)) == 2)
    assert len(of(control, InjectedInstruction)) == 1
    assert len(of(control, CoreStopped)) == 1
    assert "take red" in reports(control)[1].text


@pytest.mark.parametrize("kind", ["injected_instruction", "cancelled"])
async def test_what_the_edge_lane_told_a_job_before_a_crash_is_not_told_again(kind: str) -> None:
    rule = {"when": {"lane": "core"}, "then": [{"hang": True, "say": "never"}]}
    order = "#inject stuck: more" if kind == "injected_instruction" else "#cancel stuck"
    async with run_rehearsal(Score.model_validate({"rules": [rule]})) as model:
        async with run_control(model) as control:
            async with running_agent(control):
                await control.say("#spawn stuck: hang", "inb_1")
                await control.replied()
                await control.say(order, "inb_2")
                await control.replied(2)
            control.crash_and_cut(control.types().index(kind) + 1)
            async with running_agent(control):
                await control.replied(2)
    assert control.types().count(kind) == 1
    assert control.types().count("core_started") == 1


async def test_a_job_that_crashes_the_agent_again_and_again_ends_as_crashed() -> None:
    rule = {"when": {"lane": "core"}, "then": [{"hang": True, "say": "never"}]}
    async with run_rehearsal(Score.model_validate({"rules": [rule]})) as model:
        async with run_control(model) as control:
            async with running_agent(control):
                await control.say("#spawn poison: kill me")
                await control.replied()
            for crash in (1, 2):
                control.crash_and_cut(len(control.events))
                async with running_agent(control):
                    await control.until(lambda n=crash: control.types().count(RESUMED) == n)
            control.crash_and_cut(len(control.events))
            async with running_agent(control):
                await control.until(lambda: bool(of(control, CoreStopped)))
    assert [p.outcome for p in control.payloads() if isinstance(p, CoreStopped)] == ["crashed"]


def earlier(events: list[Event], by: timedelta) -> list[Event]:
    """Return the same log as if all of it had happened earlier."""
    moved: list[Event] = []
    for event in events:
        head = head_of(moved[-1]) if moved else LogHead()
        at = datetime.fromisoformat(event.at) - by
        moved.append(link_event(head, event.session_id, event.lane, parse_payload(event), at))
    return moved


async def test_wall_time_goes_on_through_a_crash() -> None:
    spawn = {
        "name": "choir.core.spawn",
        "arguments": {
            "job_name": "slow",
            "task_spec": "x #hang",
            "tool_constraints": {"time_budget_ms": 600_000},
        },
    }
    rule = {"when": {"contains": "go"}, "then": [{"call": spawn}, {"say": "on it"}]}
    async with run_rehearsal(Score.model_validate({"rules": [rule]})) as model:
        async with run_control(model) as control:
            async with running_agent(control):
                await control.say("go")
                await control.replied()
            control.crash_and_cut(len(control.events))
            control.events = earlier(control.events, timedelta(hours=1))
            async with running_agent(control):
                await control.until(lambda: bool(reports(control)))
    assert [p.outcome for p in control.payloads() if isinstance(p, CoreStopped)] == [
        "budget_exceeded"
    ]


async def test_every_prefix_folds_alike_with_and_without_a_snapshot_in_between() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        events = list(control.events)
    for length in range(len(events) + 1):
        state = fold(SessionState(), events[:length])
        assert load_state(dump_state(state)) == state
        again = fold(load_state(dump_state(state)), events[length:])
        assert state_digest(again) == state_digest(fold(SessionState(), events))
    for start in range(len(events)):
        fold(SessionState(), events[start:])


def fold(state: SessionState, events: list[Event]) -> SessionState:
    for event in events:
        state = apply_event(
            state, CommittedEvent(event.rev, event.hash, event.lane, event.at, parse_payload(event))
        )
    return state
