"""What a lane may use at a moment: lanes, running jobs, briefings, skills, budgets."""

import pytest

from choir_agent.arbiter.call_policy import rule_call
from choir_agent.arbiter.rulings import CheckedCall
from choir_agent.arbiter.tool_policy import PolicyContext, ToolPolicy
from choir_agent.log.session_state import BudgetUsage, JobState, SessionState, SkillState
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.skills.skill_spec import SkillSpec, StateSpec, Transition
from choir_agent.tools.builtin import schedule
from choir_agent.tools.manifest import Lanes, LlmView, RuntimeView, SideEffect, ToolManifest
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import TOOL_OUTPUT
from choir_common.wire.config import Budgets
from choir_common.wire.events import CoreStarted, ToolConstraints
from choir_common.wire.model import JsonObject
from choir_common.wire.policy import AgentPolicy


class Stub:
    """A tool that is only asked for its manifest."""

    def __init__(
        self,
        name: str,
        side_effect: SideEffect = "none",
        lanes: Lanes = "both",
        during_jobs: bool = False,
        in_skills: bool = False,
    ) -> None:
        runtime = RuntimeView(
            timeout_ms=1,
            side_effect=side_effect,
            idempotent=True,
            source=TOOL_OUTPUT,
            lanes=lanes,
            during_jobs=during_jobs,
            in_skills=in_skills,
        )
        self.manifest = ToolManifest(LlmView(name, name, {"type": "object"}), runtime)

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        raise AssertionError


TOOLS = {
    tool.manifest.name: tool
    for tool in (
        Stub("t.read", "none"),
        Stub("t.look", "read"),
        Stub("t.write", "write"),
        Stub("t.send", "external"),
        Stub("t.spawn", "none", lanes="edge", during_jobs=True),
        Stub("t.report", "none", lanes="core", in_skills=True),
    )
}
SPEC = SkillSpec(
    name="walk",
    description="",
    input_schema=None,
    output_schema=None,
    max_steps=10,
    interruptible=True,
    initial_state="one",
    states={
        "one": StateSpec(
            objective="look",
            allowed_tools=("t.look",),
            transitions=(Transition("done", "end"),),
        ),
        "end": StateSpec(terminal=True),
    },
)
POLICY = ToolPolicy(ToolRegistry([*TOOLS.values()]), SkillRegistry((SPEC,)))


def job(*allowed: str) -> JobState:
    briefing = CoreStarted(
        job_id="j",
        job_name="worker",
        call_id="c",
        dm="d",
        task_spec="x",
        tool_constraints=ToolConstraints(allowed_tools=allowed),
    )
    return JobState(turn_id="j", dm="d", briefing=briefing, started_at="2026-11-21T07:00:00Z")


def code(tool: str, state: SessionState, lane: str = "edge", turn_id: str = "t") -> object:
    moment = PolicyContext(state, Budgets(max_tool_calls_per_session=10), lane, turn_id)
    refused = POLICY.refusal(TOOLS[tool].manifest, moment)
    return None if refused is None else refused["code"]


def test_without_jobs_the_edge_lane_may_use_what_is_its_own() -> None:
    allowed = [name for name in TOOLS if code(name, SessionState()) is None]
    assert allowed == ["t.read", "t.look", "t.write", "t.send", "t.spawn"]
    assert code("t.report", SessionState()) == "wrong_lane"


def test_while_a_job_runs_the_edge_lane_reads_and_starts_jobs_only() -> None:
    state = SessionState(jobs=(job(),))
    codes = {name: code(name, state) for name in TOOLS}
    assert codes == {
        "t.read": None,
        "t.look": None,
        "t.write": "edge_restricted",
        "t.send": "edge_restricted",
        "t.spawn": None,
        "t.report": "wrong_lane",
    }


def test_the_refusal_names_the_jobs_and_what_may_be_used_instead() -> None:
    moment = PolicyContext(SessionState(jobs=(job(),)), Budgets(), "edge", "t")
    refused = POLICY.refusal(TOOLS["t.write"].manifest, moment)
    assert refused is not None
    assert refused["running"] == ["worker"]
    assert refused["allowed_tools"] == ["t_look", "t_read", "t_spawn"]


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("t.read", None),
        ("t.write", "not_in_briefing"),
        ("t.report", None),
        ("t.spawn", "wrong_lane"),
    ],
)
def test_a_job_is_held_to_its_briefing(tool: str, expected: str | None) -> None:
    state = SessionState(jobs=(job("t.read"),))
    assert code(tool, state, "core:worker", "j") == expected


def test_a_job_without_constraints_may_change_things_while_others_run() -> None:
    state = SessionState(jobs=(job(),))
    assert code("t.write", state, "core:worker", "j") is None


def test_in_a_skill_only_the_states_tools_may_be_used() -> None:
    skill = SkillState("edge", "walk", "one", {}, {})
    state = SessionState(skills=(skill,))
    assert code("t.look", state) is None
    assert code("t.read", state) == "skill_tool_forbidden"


def test_a_skill_of_one_lane_is_no_concern_of_another() -> None:
    skill = SkillState("edge", "walk", "one", {}, {})
    state = SessionState(skills=(skill,), jobs=(job(),))
    assert code("t.write", state, "core:worker", "j") is None


def test_when_the_sessions_calls_are_used_up_nothing_runs_until_more_is_granted() -> None:
    assert code("t.read", SessionState(spent=BudgetUsage(tool_calls=10))) == "budget_exhausted"
    granted = BudgetUsage(tool_calls=10, granted_tool_calls=1)
    assert code("t.read", SessionState(spent=granted)) is None


def test_every_effect_of_the_edge_lane_keeps_jobs_from_beginning_under_it() -> None:
    held = {
        name: [lock.resource for lock in POLICY.extra_locks(tool.manifest, "edge")]
        for name, tool in TOOLS.items()
    }
    assert {name for name, locks in held.items() if locks} == {"t.write", "t.send"}
    assert POLICY.extra_locks(TOOLS["t.write"].manifest, "core:worker") == ()


@pytest.mark.parametrize(
    ("arguments", "action"),
    [({"schedule_id": 1, "ask_user": True}, "ask"), ({"schedule_id": 1}, "allow")],
)
def test_a_call_whose_argument_asks_for_consent_needs_a_person(
    arguments: JsonObject, action: str
) -> None:
    stub = Stub("t.delete", "write")
    stub.manifest = schedule.DELETE_MANIFEST
    checked = CheckedCall(stub, arguments, "", ())
    assert rule_call(AgentPolicy(agent_id="main"), checked, "edge").decision.action == action
