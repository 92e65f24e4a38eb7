"""Skills in a running agent: step by step, the step's tools only, nothing twice."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from starlette.responses import Response

from choir_common.errors import StartupError
from choir_common.wire.config import Budgets
from choir_common.wire.events import (
    CoreStopped,
    ModelOutput,
    SkillStarted,
    SkillStopped,
    SkillTransitioned,
    ToolResultCommitted,
)
from choir_common.wire.model import JsonObject
from choir_common.wire.signals import CancelSignal
from tests.service.agent.control_stand_in import ControlStandIn, run_control
from tests.service.agent.running_agent import running_agent
from tests.service.agent.scripted_model import Asked, calls, run_scripted, says
from tests.support.nightly import nightly_but_every
from tests.support.replay import assert_replay_is_deterministic

MOVES = ["choir_skill_transition"]
TEA: JsonObject = {
    "name": "tea",
    "description": "Make tea.",
    "initial_state": "boil",
    "input_schema": {"type": "object", "required": ["leaf"]},
    "output_schema": {"type": "object", "required": ["cups"]},
    "states": {
        "boil": {
            "objective": "Bring the water to a boil.",
            "allowed_tools": ["choir.fs.read"],
            "transitions": [{"on": "complete", "to": "pour"}, {"on": "error", "to": "mop"}],
        },
        "pour": {
            "objective": "Pour it over the leaves.",
            "allowed_tools": ["choir.fs.write"],
            "transitions": [{"on": "complete", "to": "done"}],
        },
        "mop": {
            "objective": "Wipe up what was spilt.",
            "transitions": [{"on": "complete", "to": "done"}],
        },
        "done": {"terminal": True},
    },
    "max_steps": 8,
}
START = ("choir_skill_start", {"skill": "tea", "input": {"leaf": "green"}})
READ = ("choir_fs_read", {"path": "kettle.txt"})
WRITE = ("choir_fs_write", {"path": "cup.txt", "content": "tea\n"})
ON = ("choir_skill_transition", {"on": "complete", "context": {"water": "hot"}})
END = ("choir_skill_transition", {"on": "complete", "context": {}, "output": {"cups": 2}})


@dataclass
class Model:
    """Plays its answers one by one, and keeps what it was shown for each."""

    answers: list[Response]
    shown: list[Asked] = field(default_factory=list)

    def __call__(self, asked: Asked) -> Response:
        self.shown.append(asked)
        return self.answers[min(len(self.shown), len(self.answers)) - 1]

    def tools(self) -> list[list[str]]:
        """Return the names of the tools in each request."""
        return [sorted(asked.turn.tool_names) for asked in self.shown]


def install(control: ControlStandIn, **changes: object) -> None:
    place = control.choir_dir / "skills"
    place.mkdir(exist_ok=True)
    (place / "tea.json").write_text(json.dumps(TEA | changes))
    (control.workspace / "kettle.txt").write_text("hot")


def moves(control: ControlStandIn) -> list[str]:
    """Return where the skill went, in the log's words."""
    found: list[str] = []
    for payload in control.payloads():
        match payload:
            case SkillStarted():
                found.append(f"in {payload.state}")
            case SkillTransitioned():
                found.append(f"{payload.on} {payload.to_state}")
            case SkillStopped():
                found.append(f"out {payload.outcome}")
            case _:
                pass
    return found


def results(control: ControlStandIn) -> list[ToolResultCommitted]:
    return [p for p in control.payloads() if isinstance(p, ToolResultCommitted)]


WALK = [calls(START), calls(READ), calls(ON), calls(WRITE), calls(END), says("Your tea.")]


async def test_a_skill_is_walked_step_by_step_and_shows_each_step_alone() -> None:
    model = Model(WALK)
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea")
            assert (await control.replied())[0].text == "Your tea."
    assert moves(control) == ["in boil", "complete pour", "complete done", "out completed"]
    (stop,) = [p for p in control.payloads() if isinstance(p, SkillStopped)]
    assert stop.output == {"cups": 2}
    whole = sorted([*model.tools()[0]])
    assert model.tools() == [
        whole,
        ["choir_fs_read", *MOVES],
        ["choir_fs_read", *MOVES],
        ["choir_fs_write", *MOVES],
        ["choir_fs_write", *MOVES],
        whole,
    ]
    notes = [asked.turn.system_text for asked in model.shown]
    assert ["Bring the water" in note for note in notes] == [False, True, True, False, False, False]
    assert ["Pour it over" in note for note in notes] == [False, False, False, True, True, False]
    assert not any("Wipe up" in note for note in notes)
    assert '{"leaf":"green"}' in notes[1]
    assert '{"water":"hot"}' in notes[3]
    assert "- tea: Make tea." in notes[0]
    assert_replay_is_deterministic(control.events)


PROPOSAL = {
    "manifest": {
        "llm": {
            "name": "weather.today",
            "description": "Tell today's weather for a place.",
            "parameters": {"type": "object", "properties": {"place": {"type": "string"}}},
        },
        "runtime": {"timeout_ms": 5000, "side_effect": "read", "idempotent": True},
    },
    "behaviour": "Asks a weather service for the place and returns temperature and sky.",
    "reason": "The user asks for the weather every morning.",
}


async def test_the_tool_builder_leads_to_a_proposal_that_waits_for_a_human() -> None:
    onward = ("choir_skill_transition", {"on": "complete", "context": {"tool": "weather.today"}})
    model = Model(
        [
            calls(("choir_skill_start", {"skill": "tool-builder", "input": {"wish": "weather"}})),
            calls(onward),
            calls(("choir_skill_transition", {"on": "revise", "context": {"open": "which place"}})),
            calls(onward),
            calls(onward),
            calls(onward),
            calls(("choir_propose_tool", PROPOSAL)),
            calls(onward),
            says("I proposed it; you decide."),
        ]
    )
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        async with running_agent(control):
            await control.say("I want a weather tool")
            await control.replied()
    assert moves(control) == [
        "in understand",
        "complete design",
        "revise understand",
        "complete design",
        "complete validate",
        "complete propose",
        "complete done",
        "out completed",
    ]
    assert model.tools()[6] == ["choir_propose_tool", *MOVES]
    assert len(control.approvals) == 1
    assert [result.status for result in results(control)] == ["success"] * 8
    assert len(control.hellos[0].skill_manifest_hash) == 64


async def test_a_forbidden_tool_three_times_makes_the_error_transition() -> None:
    forbidden = calls(("choir_exec", {"command": "touch spilt"}))
    model = Model([calls(START), forbidden, forbidden, forbidden, says("I spilt it.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea")
            await control.replied()
        spilt = (control.workspace / "spilt").exists()
    assert moves(control) == ["in boil", "error mop"]
    assert not spilt
    refusals = [result.output for result in results(control) if result.status == "refused"]
    assert [output["code"] for output in refusals] == ["skill_tool_forbidden"] * 3
    assert refusals[0]["allowed_tools"] == ["choir_fs_read"]
    assert "choir_skill_start" in model.tools()[0] and MOVES[0] not in model.tools()[0]
    assert model.tools()[4] == MOVES
    assert "3 calls were refused" in model.shown[4].turn.system_text


async def test_invalid_transitions_beyond_the_budget_end_a_skill_without_an_error_transition() -> (
    None
):
    wrong = calls(("choir_skill_transition", {"on": "jump", "context": {}}))
    model = Model([calls(START), calls(ON), wrong, wrong, says("It went wrong.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        control.budgets = Budgets(skill_step_retries=1)
        async with running_agent(control):
            await control.say("make tea")
            await control.replied()
    assert moves(control) == ["in boil", "complete pour", "out error"]
    assert "The skill 'tea' has ended (error)" in model.shown[4].turn.system_text
    assert len(model.tools()[4]) > 3
    assert results(control)[2].output["valid_transitions"] == [
        {"on": "complete", "to": "done"},
        {"on": "cancel", "to": None},
    ]


async def test_steps_cannot_be_skipped_by_several_transitions_in_one_answer() -> None:
    model = Model([calls(START, ON), calls(ON, END), calls(END), says("Your tea.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea")
            await control.replied()
    assert moves(control) == ["in boil", "complete pour", "complete done", "out completed"]
    codes = [r.output["code"] for r in results(control) if r.status == "refused"]
    assert codes == ["skill_step_skipped"] * 2


@pytest.mark.parametrize("depth", [99, 101, 240, 900])
async def test_a_context_nested_beyond_what_an_event_carries_is_refused(depth: int) -> None:
    # the arguments and the context around it are two levels more
    nested = "[" * (depth - 2) + "]" * (depth - 2)
    deep = f'{{"on": "complete", "context": {{"a": {nested}}}}}'
    model = Model([calls(START), calls(("choir_skill_transition", deep)), says("As you like.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea")
            assert (await control.replied())[0].text == "As you like."
    assert moves(control) == (["in boil", "complete pour"] if depth < 100 else ["in boil"])
    assert results(control)[1].output.get("code") == (
        None if depth < 100 else "malformed_arguments"
    )


async def test_a_skill_that_goes_in_circles_ends_at_its_last_step() -> None:
    model = Model([calls(START), *[calls(READ)] * 8, says("I gave up.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea")
            assert (await control.replied())[0].text == "I gave up."
    assert moves(control) == ["in boil", "out error"]
    assert len([p for p in control.payloads() if isinstance(p, ModelOutput)]) == 1 + 8 + 1


async def test_a_skill_waits_in_its_step_while_the_model_asks_the_user() -> None:
    model = Model([calls(START), says("Which cup?"), calls(ON), calls(END), says("Your tea.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea", "inb_1")
            assert (await control.replied())[0].text == "Which cup?"
            await control.say("the blue one", "inb_2")
            assert (await control.replied(2))[1].text == "Your tea."
    assert moves(control) == ["in boil", "complete pour", "complete done", "out completed"]
    assert model.tools()[2] == ["choir_fs_read", *MOVES]


@pytest.mark.parametrize(
    ("interruptible", "after"), [(True, ["in boil", "out cancelled"]), (False, ["in boil"])]
)
async def test_a_cancelled_turn_ends_its_skill_unless_it_is_not_interruptible(
    interruptible: bool, after: list[str]
) -> None:
    nap = calls(("choir_exec", {"command": "sleep 30"}))
    model = Model([calls(START), nap, says("Still here.")])
    async with run_scripted(model) as endpoint, run_control(endpoint) as control:
        states = json.loads(json.dumps(TEA["states"]))
        states["boil"]["allowed_tools"] = ["choir.exec"]
        install(control, interruptible=interruptible, states=states)
        async with running_agent(control):
            await control.say("make tea", "inb_1")
            await control.until(lambda: "tool_call_committed" in control.types()[5:])
            await control.tell(CancelSignal())
            assert (await control.replied())[0].text == "Cancelled."
            await control.say("are you there?", "inb_2")
            await control.replied(2)
    assert moves(control) == after
    assert (len(model.tools()[-1]) == 2) is not interruptible


async def test_a_core_job_walks_a_skill_of_its_own() -> None:
    model = Model(WALK)
    brief = ("choir_core_spawn", {"job_name": "tea", "task_spec": "Make tea."})

    def both(asked: Asked) -> Response:
        if asked.lane == "core":
            return model(asked)
        return calls(brief) if asked.number == 1 else says("It is done.")

    async with run_scripted(both) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea in the background")
            await control.until(lambda: "core_stopped" in control.types())
    (end,) = [p for p in control.payloads() if isinstance(p, CoreStopped)]
    assert end.outcome == "completed"
    assert moves(control) == ["in boil", "complete pour", "complete done", "out completed"]
    assert {e.lane for e in control.events if e.type.startswith("skill_")} == {"core:tea"}


async def test_a_job_that_ends_in_the_middle_of_a_skill_ends_the_skill_first() -> None:
    brief = ("choir_core_spawn", {"job_name": "tea", "task_spec": "Make tea."})

    def both(asked: Asked) -> Response:
        if asked.lane == "core":
            return calls(START) if asked.turn.answers == 0 else says("I know better.")
        return calls(brief) if asked.number == 1 else says("It is done.")

    async with run_scripted(both) as endpoint, run_control(endpoint) as control:
        install(control)
        async with running_agent(control):
            await control.say("make tea in the background")
            await control.until(lambda: "core_stopped" in control.types())
    assert moves(control) == ["in boil", "out cancelled"]
    types = [event.type for event in control.events if event.lane == "core:tea"]
    assert types[-2:] == ["skill_stopped", "core_stopped"]


async def walk(control: ControlStandIn) -> None:
    install(control)
    await control.say("make tea")
    async with running_agent(control):
        await control.replied()
        await control.until(lambda: control.types()[-1] == "reply")


def play(asked: Asked) -> Response:
    """Answer by how far the turn is: what a crash cut off is answered as before."""
    return WALK[min(asked.turn.answers, len(WALK) - 1)]


# session_started, user_msg, 5 × (output, requested, committed, result), one event more in 3 of them,
# the end of the skill, output, reply
EVENTS = 2 + 5 * 4 + 3 + 1 + 2


@pytest.mark.parametrize("kept", nightly_but_every(3, range(2, EVENTS + 1)))
async def test_a_walk_cut_off_after_any_event_goes_each_way_once(kept: int) -> None:
    async with run_scripted(play) as endpoint, run_control(endpoint) as control:
        await walk(control)
        assert len(control.events) == EVENTS
        whole = moves(control)
        control.crash_and_cut(kept)
        async with running_agent(control):
            assert (await control.replied())[-1].text == "Your tea."
    assert moves(control) == whole
    statuses = {result.status for result in results(control)}
    # a write whose outcome the crash hid is not run again
    assert statuses <= {"success", "interrupted"}
    by_tool = [r for r in results(control) if r.tool.startswith("choir.skill.")]
    assert [result.status for result in by_tool] == ["success"] * 3
    assert_replay_is_deterministic(control.events)


async def test_a_broken_skill_stops_the_start_with_file_field_and_reason(tmp_path: Path) -> None:
    async with run_control("http://127.0.0.1:9/v1") as control:
        install(control, initial_state="steep")
        async with running_agent(control) as agent:
            with pytest.raises(StartupError, match=r"tea\.json .*initial_state: there is no state"):
                await agent
