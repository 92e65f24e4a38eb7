"""A turn that waits for a human's decision does not keep other messages waiting."""

import json
import sys
from pathlib import Path

import pytest

from choir_common.wire.events import SkillStopped, ToolResultCommitted, UserMessageStarted
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalResponse
from choir_common.wire.signals import ApprovalResolvedSignal, CancelSignal, ShutdownSignal
from choir_local.rehearsal.score import Score
from choir_testing.rehearsal import run_rehearsal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent

LOCK: JsonObject = {
    "name": "lock",
    "description": "Open the door and look.",
    "initial_state": "open",
    "states": {
        "open": {
            "objective": "Open the door.",
            "allowed_tools": ["house.door"],
            "transitions": [{"on": "complete", "to": "done"}],
        },
        "done": {"terminal": True},
    },
    "max_steps": 8,
}
HALL: JsonObject = {
    "name": "hall",
    "description": "Stay in the hall.",
    "initial_state": "inside",
    "states": {
        "inside": {
            "objective": "Stay.",
            "allowed_tools": [],
            "transitions": [{"on": "complete", "to": "done"}],
        },
        "done": {"terminal": True},
    },
    "max_steps": 8,
}
ENTER: JsonObject = {"call": {"name": "choir.skill.start", "arguments": {"skill": "hall"}}}
START: JsonObject = {"call": {"name": "choir.skill.start", "arguments": {"skill": "lock"}}}
ON: JsonObject = {
    "call": {"name": "choir.skill.transition", "arguments": {"on": "complete", "context": {}}}
}
DOOR: JsonObject = {"call": {"name": "house.door", "arguments": {}}}
RULES: list[JsonObject] = [
    {"when": {"lane": "core"}, "then": [{"say": "all is read"}]},
    {"when": {"lane": "report"}, "then": [DOOR, {"say": "it is read, the door is open"}]},
    {"when": {"contains": "in a skill"}, "then": [START, DOOR, ON, {"say": "out of the skill"}]},
    {"when": {"contains": "one more"}, "then": [START, {"say": "not now"}]},
    {"when": {"contains": "go inside"}, "then": [ENTER, {"say": "inside"}]},
    {"when": {"contains": "go outside"}, "then": [ON, {"say": "outside"}]},
    {
        "when": {"contains": "guarded"},
        "then": [{"call": {"name": "house.door", "arguments": {}}}, {"say": "the door is open"}],
    },
]
SCORE = Score.model_validate({"rules": RULES, "otherwise": [{"say": "at once"}]})
PROGRAM = """
import json
open("opened", "a").write("x")
print(json.dumps({"status": "success", "summary": "open"}))
"""


def guard(control: ControlStandIn) -> None:
    """Give the agent a tool that only a human may let run."""
    place = control.choir_dir / "tools/global"
    place.mkdir(parents=True)
    runtime = {
        "timeout_ms": 30_000,
        "side_effect": "external",
        "idempotent": False,
        "needs_approval": True,
        "locks": [{"resource": "workspace", "mode": "X"}],
    }
    about = {
        "llm": {"name": "house.door", "description": "d", "parameters": {"type": "object"}},
        "runtime": runtime,
    }
    (place / "door.json").write_text(json.dumps(about))
    program = place / "door"
    program.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
    program.chmod(0o755)


async def asked(control: ControlStandIn, count: int = 1) -> list[str]:
    await control.until(lambda: len(control.approvals) >= count)
    return list(control.approvals)


async def decide(control: ControlStandIn, call_id: str, status: str) -> None:
    approval_id = control.approvals[call_id].approval_id
    said = {"approval_id": approval_id, "status": status}
    control.approvals[call_id] = ApprovalResponse.model_validate(said)
    await control.tell(ApprovalResolvedSignal.model_validate(said))


async def test_other_messages_are_answered_while_a_call_waits_for_a_human() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded", "inb_1")
            [call_id] = await asked(control)
            await control.say("hello", "inb_2")
            assert [reply.answers for reply in await control.replied(1)] == ["inb_2"]
            await control.say("hello again", "inb_3")
            assert [reply.answers for reply in await control.replied(2)] == ["inb_2", "inb_3"]
            assert not (control.workspace / "opened").exists()
            await decide(control, call_id, "approved")
            replies = await control.replied(3)
            opened = (control.workspace / "opened").read_text()
    assert (replies[-1].answers, replies[-1].text) == ("inb_1", "the door is open")
    assert opened == "x" and list(control.approvals) == [call_id]
    assert control.types().count("user_msg") == 3
    assert [p.status for p in control.payloads() if isinstance(p, ToolResultCommitted)] == [
        "success"
    ]


@pytest.mark.parametrize("order", [("inb_1", "inb_2"), ("inb_2", "inb_1")])
async def test_two_waiting_turns_go_on_in_the_order_in_which_they_are_decided(
    order: tuple[str, str],
) -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded one", "inb_1")
            await asked(control, 1)
            await control.say("guarded two", "inb_2")
            calls = dict(zip(("inb_1", "inb_2"), await asked(control, 2), strict=True))
            await decide(control, calls[order[0]], "rejected")
            assert [reply.answers for reply in await control.replied(1)] == [order[0]]
            await decide(control, calls[order[1]], "approved")
            assert [reply.answers for reply in await control.replied(2)] == list(order)


async def test_a_turn_that_may_not_even_ask_yet_keeps_no_message_waiting() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        control.most_undecided = 1
        async with running_agent(control):
            await control.say("guarded one", "inb_1")
            [first] = await asked(control)
            await control.say("guarded two", "inb_2")
            await control.say("hello", "inb_3")
            assert [reply.answers for reply in await control.replied(1)] == ["inb_3"]
            await decide(control, first, "rejected")
            _, second = await asked(control, 2)
            await decide(control, second, "approved")
            replies = await control.replied(3)
    assert [reply.answers for reply in replies] == ["inb_3", "inb_1", "inb_2"]


async def test_a_parked_turn_outlives_a_crash_and_a_stop() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded", "inb_1")
            [call_id] = await asked(control)
            await control.say("hello", "inb_2")
            await control.replied(1)
        control.next_epoch()
        async with running_agent(control) as agent:
            await control.say("and now?", "inb_3")
            await control.replied(2)
            await control.tell(ShutdownSignal(reason="operator"))
            assert await agent == 0
        assert control.types()[-1] == "session_suspended"
        control.next_epoch()
        async with running_agent(control):
            await decide(control, call_id, "approved")
            replies = await control.replied(3)
    assert (replies[-1].answers, replies[-1].text) == ("inb_1", "the door is open")
    taken = [p.inbox_id for p in control.payloads() if isinstance(p, UserMessageStarted)]
    assert taken == ["inb_1", "inb_2", "inb_3"]


async def test_a_turn_that_waits_again_can_be_cancelled() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded", "inb_1")
            await asked(control)
            await control.say("hello", "inb_2")
            await control.replied(1)
            await control.until(lambda: "turn_unparked" in control.types())
            await control.tell(CancelSignal())
            replies = await control.replied(2)
    assert (replies[-1].answers, replies[-1].text) == ("inb_1", "Cancelled.")
    assert not Path(control.workspace / "opened").exists()


async def test_a_cancel_reaches_a_turn_that_was_put_aside_for_another() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("guarded one", "inb_1")
            await asked(control, 1)
            await control.say("guarded two", "inb_2")
            await asked(control, 2)
            await control.tell(CancelSignal())
            replies = await control.replied(2)
            await control.say("hello", "inb_3")
            await control.until(lambda: answered(control, "inb_3"))
    assert {(reply.answers, reply.text) for reply in replies[:2]} == {
        ("inb_1", "Cancelled."),
        ("inb_2", "Cancelled."),
    }
    assert control.types().count("cancelled") == 2
    assert not Path(control.workspace / "opened").exists()


async def test_a_turn_outside_of_a_skill_goes_on_once_the_lane_has_left_the_skill() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        (control.choir_dir / "skills").mkdir()
        (control.choir_dir / "skills/hall.json").write_text(json.dumps(HALL))
        async with running_agent(control):
            await control.say("guarded", "inb_1")
            [call_id] = await asked(control)
            await control.say("go inside", "inb_2")
            await control.until(lambda: answered(control, "inb_2"))
            await decide(control, call_id, "approved")
            await control.say("go outside", "inb_3")
            await control.until(lambda: answered(control, "inb_1"))
            opened = (control.workspace / "opened").read_text()
    assert [(reply.answers, reply.text) for reply in control.replies()] == [
        ("inb_2", "inside"),
        ("inb_3", "outside"),
        ("inb_1", "the door is open"),
    ]
    assert opened == "x"


async def test_a_report_that_waits_for_a_human_keeps_no_message_waiting() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        async with running_agent(control):
            await control.say("#spawn reader: read it", "inb_1")
            [call_id] = await asked(control)
            await control.say("hello", "inb_2")
            await control.until(lambda: answered(control, "inb_2"))
            assert "report" not in kinds(control)
        control.next_epoch()
        async with running_agent(control):
            await control.say("hello again", "inb_3")
            await control.until(lambda: answered(control, "inb_3"))
            await decide(control, call_id, "approved")
            await control.until(lambda: "report" in kinds(control))
            opened = (control.workspace / "opened").read_text()
    assert control.replies()[-1].text == "it is read, the door is open"
    assert opened == "x" and kinds(control).count("report") == 1
    assert control.types().count("report_begun") == 1


async def test_a_skill_waits_with_its_turn_and_other_messages_are_no_part_of_it() -> None:
    async with run_rehearsal(SCORE) as model, run_control(model) as control:
        guard(control)
        (control.choir_dir / "skills").mkdir()
        (control.choir_dir / "skills/lock.json").write_text(json.dumps(LOCK))
        async with running_agent(control):
            await control.say("in a skill", "inb_1")
            [call_id] = await asked(control)
            await control.say("hello", "inb_2")
            await control.until(lambda: answered(control, "inb_2"))
            await control.say("one more", "inb_3")
            await control.until(lambda: answered(control, "inb_3"))
        control.next_epoch()
        async with running_agent(control):
            await decide(control, call_id, "approved")
            await control.until(lambda: answered(control, "inb_1"))
    assert control.replies()[-1].text == "out of the skill"
    results = [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]
    # the second start is refused: the skill that waits comes back
    assert [(p.tool, p.status) for p in results] == [
        ("choir.skill.start", "success"),
        ("choir.skill.start", "refused"),
        ("house.door", "success"),
        ("choir.skill.transition", "success"),
    ]
    stopped = [p for p in control.payloads() if isinstance(p, SkillStopped)]
    assert [p.outcome for p in stopped] == ["completed"]


def answered(control: ControlStandIn, inbox_id: str) -> bool:
    return inbox_id in [reply.answers for reply in control.replies()]


def kinds(control: ControlStandIn) -> list[str]:
    return [reply.kind for reply in control.replies()]
