"""What people say beside their messages: inject, cancel, compact, decide; each is obeyed once."""

import asyncio
from typing import TypeVar

import pytest

from choir_common.wire.events import (
    ApprovalDecided,
    Cancelled,
    CompactionRequested,
    InjectedInstruction,
    ModelOutput,
)
from choir_common.wire.rpc import StatusReport
from choir_common.wire.signals import (
    ApprovalResolvedSignal,
    CancelSignal,
    CompactSignal,
    InjectSignal,
    ShutdownSignal,
)
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.gated_model import Gate, run_gated
from tests.service.agent.running_agent import running_agent

P = TypeVar("P")
PROPOSAL = {
    "name": "choir.propose.config_change",
    "arguments": {"patch": {"event_window": 80}, "reason": "to remember more"},
}


def score(*rules: dict[str, object]) -> Score:
    return Score.model_validate({"rules": list(rules), "otherwise": [{"say": "you said {user}"}]})


def of(control: ControlStandIn, kind: type[P]) -> list[P]:
    return [p for p in control.payloads() if isinstance(p, kind)]


async def test_an_injection_that_comes_while_the_model_thinks_is_read_before_the_turn_is_closed() -> (
    None
):
    rules = (
        {"when": {"contains": "in blue"}, "then": [{"say": "painted blue"}]},
        {"when": {"contains": "paint"}, "then": [{"say": "painted red"}]},
    )
    gate = Gate("edge")
    async with run_gated(score(*rules), gate) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("paint the house")
            await gate.reached()
            await control.tell(InjectSignal(text="in blue, please"))
            await control.until(lambda: bool(of(control, InjectedInstruction)))
            gate.open()
            reply = (await control.replied())[0]
    assert reply.text == "painted blue"
    assert len(of(control, ModelOutput)) == 2
    assert [(p.by, p.signal) for p in of(control, InjectedInstruction)] == [("user", 2)]


async def test_an_injection_into_an_idle_lane_is_read_with_the_next_message() -> None:
    rule = {"when": {"contains": "what"}, "then": [{"say": "{user}"}]}
    async with run_rehearsal(score(rule)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.tell(InjectSignal(text="I prefer tea"))
            await control.until(lambda: bool(of(control, InjectedInstruction)))
            await asyncio.sleep(0.1)
            assert control.replies() == []
            await control.say("what do I drink?")
            await control.replied()
    assert of(control, InjectedInstruction)[0].turn_id is None


async def test_signals_that_come_again_after_a_crash_are_obeyed_once() -> None:
    hang = {"when": {"contains": "wait"}, "then": [{"hang": True, "say": "never"}]}
    async with run_rehearsal(score(hang)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("wait for me", "inb_1")
            await control.until(lambda: control.types()[-1:] == ["user_msg"])
            await control.tell(InjectSignal(text="more"))
            await control.tell(CompactSignal())
            await control.tell(CancelSignal())
            await control.replied()
        for _ in range(2):
            control.crash_and_cut(len(control.events))
            async with running_agent(control):
                await control.until(lambda: control.types()[-1] == "session_resumed")
                await asyncio.sleep(0.2)
    assert len(of(control, InjectedInstruction)) == 1
    assert len(of(control, CompactionRequested)) == 1
    assert [(p.by, p.signal) for p in of(control, Cancelled)] == [("user", 4)]
    assert [reply.text for reply in control.replies()] == ["Cancelled."]


async def test_a_turn_cancelled_just_before_a_crash_ends_as_cancelled() -> None:
    sleep = {"name": "choir.exec", "arguments": {"command": "touch begun; sleep 30"}}
    rule = {"when": {"contains": "sleep"}, "then": [{"call": sleep}, {"say": "never"}]}
    async with run_rehearsal(score(rule)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("sleep")
            while not (control.workspace / "begun").exists():
                await asyncio.sleep(0.02)
            await control.tell(CancelSignal())
            await control.replied()
        control.crash_and_cut(control.types().index("cancelled") + 1)
        async with running_agent(control):
            reply = (await control.replied())[0]
    assert (reply.text, reply.kind) == ("Cancelled.", "error")
    assert control.types().count("tool_result_committed") == 1


async def test_an_unknown_job_to_cancel_changes_nothing_and_the_signal_is_done() -> None:
    async with run_rehearsal(score()) as model, run_control(model) as control:
        async with running_agent(control):
            await control.tell(CancelSignal(job="nobody"))
            await control.until(lambda: bool(of(control, Cancelled)))
            await control.say("hello")
            await control.replied()
    cancelled = of(control, Cancelled)[0]
    assert (cancelled.target, cancelled.turn_id, cancelled.signal) == ("core:nobody", None, 1)


@pytest.mark.parametrize("status", ["approved", "rejected", "expired"])
async def test_a_decision_on_a_proposal_is_told_to_the_user_once(status: str) -> None:
    rule = {"when": {"contains": "change"}, "then": [{"call": PROPOSAL}, {"say": "proposed"}]}
    async with run_rehearsal(score(rule)) as model, run_control(model) as control:
        async with running_agent(control):
            await control.say("change it")
            await control.replied()
            approval = next(iter(control.approvals.values())).approval_id
            decision = {"approval_id": approval, "status": status}
            for _ in range(2):
                await control.tell(ApprovalResolvedSignal.model_validate(decision))
            await control.until(lambda: len(control.replies()) == 2)
        control.crash_and_cut(len(control.events))
        async with running_agent(control):
            await control.until(lambda: control.types()[-1] == "session_resumed")
            await asyncio.sleep(0.2)
    decided = of(control, ApprovalDecided)
    assert [(p.approval_id, p.status) for p in decided] == [(approval, status)]
    assert [reply.kind for reply in control.replies()] == ["answer", "report"]
    told = control.replies()[1].text
    assert status in told and ("Your decision" in told) == (status != "expired")


async def test_people_see_what_each_lane_does_and_what_is_left_of_its_budgets() -> None:
    async with run_rehearsal(score()) as model, run_control(model) as control:
        async with running_agent(control) as agent:
            await control.say("#spawn stuck: this #hang")

            def of_job() -> StatusReport | None:
                return next((s for s in control.statuses if s.lane == "core:stuck"), None)

            await control.until(lambda: of_job() is not None)
            working = of_job()
            await control.tell(CancelSignal(job="stuck"))
            await control.until(lambda: control.statuses[-1].state == "CORE_TERMINATED")
            await control.tell(ShutdownSignal(reason="operator"))
            assert await agent == 0
    assert working is not None
    assert working.state == "CORE_REASONING"
    assert working.budget_remaining["per_job_max_steps"] == 100
    edge = [status for status in control.statuses if status.lane == "edge"]
    assert edge[0].budget_remaining["total_session_tokens"] > 0
