"""The agent goes on after a crash: GUARANTEES 1, 2 and 3, and row R1 for the agent alone."""

import asyncio
import shutil
from pathlib import Path

import pytest

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.log.session_fold import apply_event
from choir_agent.log.session_state import SessionState, state_digest
from choir_common.eventlog.chain import find_break
from choir_common.wire.events import Event, ToolResultCommitted, parse_payload
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.ledger import ledger, undo_what_was_not_committed
from tests.service.agent.running_agent import running_agent
from tests.support.nightly import nightly_but_every

CALLS = (
    {"name": "choir.exec", "arguments": {"command": "echo done >> ledger"}},
    {"name": "choir.memory.upsert", "arguments": {"operation": "insert", "text": "tea"}},
    {"name": "choir.fs.read", "arguments": {"path": "notes.txt"}},
)
SCORE = Score.model_validate(
    {"otherwise": [*({"call": call} for call in CALLS), {"say": "all three are done"}]}
)
# session_started, user_msg, 3 × (output, requested, committed, result), memory write, output, reply
EVENTS = 2 + 3 * 4 + 1 + 2


def remember(request: HostToolRequest) -> HostToolResponse:
    output = {"document_id": "doc_1", "key": None, "operation": "inserted", "embedded": "queued"}
    return HostToolResponse(call_id=request.call_id, status="success", output=output)


async def run_to_the_end(control: ControlStandIn) -> None:
    (control.workspace / "notes.txt").write_text("a note")
    control.host_tool = remember
    await control.say("do the three things")
    async with running_agent(control):
        await control.replied()
        await control.until(lambda: len(control.events) == EVENTS)


@pytest.mark.parametrize("kept", nightly_but_every(3, range(EVENTS + 1)))
async def test_a_turn_cut_off_after_any_event_ends_with_one_reply_and_no_doubled_effect(
    kept: int,
) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        control.crash_and_cut(kept)
        undo_what_was_not_committed(control)
        async with running_agent(control):
            await control.replied()
            await asyncio.sleep(0.02)
        closing = [reply for reply in control.replies() if reply.answers == "inb_1"]
        finished = [p.call_id for p in control.payloads() if isinstance(p, ToolResultCommitted)]
        assert [reply.kind for reply in closing] == ["answer"]
        assert ledger(control) == 1
        assert len(finished) == len(set(finished)) == 3
        assert find_break(control.events) is None


async def test_a_call_whose_outcome_a_crash_hid_is_not_run_again_and_the_model_is_told() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        control.crash_and_cut(control.types().index("tool_call_committed") + 1)
        async with running_agent(control):
            await control.replied()
        result = next(p for p in control.payloads() if isinstance(p, ToolResultCommitted))
    assert (result.tool, result.status) == ("choir.exec", "interrupted")
    assert result.output["code"] == "outcome_unknown"


async def test_a_host_write_that_may_have_happened_is_repeated_under_its_own_key() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        second = [n for n, kind in enumerate(control.types()) if kind == "tool_call_committed"][1]
        control.crash_and_cut(second + 1)
        async with running_agent(control):
            await control.replied()
    assert len(control.host_calls) == 2
    assert len({call.call_id for call in control.host_calls}) == 1


async def test_a_second_crash_during_recovery_is_survived_too() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        for kept in (12, 11, 9):
            control.crash_and_cut(kept)
            async with running_agent(control):
                await control.until(lambda at_least=kept + 1: len(control.events) >= at_least)  # type: ignore[misc]
        control.crash_and_cut(len(control.events))
        async with running_agent(control):
            await control.replied()
    assert len([reply for reply in control.replies() if reply.answers]) == 1
    assert ledger(control) <= 1 or not control.workspace.exists()


async def test_a_finished_session_answers_the_next_message_only() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        control.crash_and_cut(EVENTS)
        async with running_agent(control):
            await control.say("again", "inb_2")
            await control.replied(2)
    assert [reply.answers for reply in control.replies()] == ["inb_1", "inb_2"]


async def test_every_prefix_of_a_real_log_folds_and_replay_gives_the_same_state() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        events = list(control.events)
    for length in range(len(events) + 1):
        assert state_digest(fold(events[:length])) == state_digest(fold(events[:length]))
    for start in range(len(events)):
        fold(events[start:])
    assert fold(events).turn is None


def fold(events: list[Event]) -> SessionState:
    state = SessionState()
    for event in events:
        state = apply_event(
            state, CommittedEvent(event.rev, event.hash, event.lane, event.at, parse_payload(event))
        )
    return state


async def test_the_same_log_in_a_fresh_place_gives_the_same_reply(tmp_path: Path) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        await run_to_the_end(control)
        shutil.copytree(control.workspace, tmp_path / "ws")
        control.crash_and_cut(len(control.types()) - 1)
        assert control.types()[-1] == "model_output"
        calls = len(control.host_calls)
        async with running_agent(control):
            reply = (await control.replied())[0]
    assert reply.text == "all three are done"
    assert len(control.host_calls) == calls
