"""`choir.skill.start` and `choir.skill.transition`: start a skill, and move it to its next state.

They need no locks; their only effect is one event, which changes the lane's state.
"""

from typing import cast

from choir_agent.log.session_state import SessionStateSource
from choir_agent.skills.skill_engine import (
    TransitionCaller,
    TransitionRefused,
    TransitionRequest,
    TransitionRuling,
    rule_on_transition,
    start_skill,
)
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.skills.skill_spec import CANCEL, START_TOOL, TRANSITION_TOOL
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.tool import CallContext, ToolOutput, ToolRefused
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.lanes import is_edge
from choir_common.wire.model import JsonObject

START_MANIFEST = ToolManifest(
    LlmView(
        name=START_TOOL,
        description=(
            "Begin a skill: a workflow that leads you step by step, with the tools of each step only. "
            "Call it alone; your next answer is the first step. One skill at a time."
        ),
        parameters={
            "type": "object",
            "properties": {
                "skill": {"type": "string", "description": "its name"},
                "input": {"type": "object", "description": "what the skill works on"},
            },
            "required": ["skill"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT, timeout_ms=5_000, side_effect="none", idempotent=True, during_jobs=True
    ),
)


class SkillStartTool:
    """Starts skills."""

    manifest = START_MANIFEST

    def __init__(self, skills: SkillRegistry, session: SessionStateSource) -> None:
        self._skills = skills
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Decide on the start. There is no await: the state must not change between decision and event.

        Raises ToolRefused for an unknown skill, an invalid input, or while a skill is active.
        """
        name = str(arguments["skill"])
        spec = self._skills.find(name)
        if spec is None:
            details: JsonObject = {"available_skills": [*self._skills.names()]}
            raise ToolRefused("unknown_skill", f"There is no skill {name!r}.", details)
        skill_input = cast(JsonObject, arguments.get("input", {}))
        caller = TransitionCaller(context.turn_id, context.call_id)
        state = self._session.state
        active_skill = state.skill_of(context.lane)
        if active_skill is None and is_edge(context.lane):
            # A skill of a parked turn becomes active again when the turn resumes.
            active_skill = state.parked_skill_of(context.lane)
        return tool_output_of(start_skill(spec, active_skill, skill_input, caller))


def tool_output_of(ruling: TransitionRuling) -> ToolOutput:
    """Return the skill engine's decision as a tool's output.

    Raises ToolRefused with the alternatives that the model has.
    """
    if isinstance(ruling, TransitionRefused):
        details = dict(ruling.error)
        kind, message = str(details.pop("code")), str(details.pop("message"))
        raise ToolRefused(kind, message, details)
    state = ruling.output.get("state")
    has_ended = ruling.output.get("ended") is True
    summary = f"the skill has ended in {state}" if has_ended else f"the skill is in {state}"
    return ToolOutput(ruling.output, summary, ruling.events)


TRANSITION_MANIFEST = ToolManifest(
    LlmView(
        name=TRANSITION_TOOL,
        description=(
            "Leave the present step of the active skill. `on`: one of the transitions that the step lists; "
            "`context`: what the next step needs to know, as structured facts, for it replaces what you "
            "were handed; `output`: the skill's result, when this ends it. Call it alone."
        ),
        parameters={
            "type": "object",
            "properties": {
                "on": {"type": "string"},
                "context": {"type": "object"},
                "output": {"type": "object"},
            },
            "required": ["on", "context"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=5_000,
        side_effect="none",
        idempotent=True,
        during_jobs=True,
        in_skills=True,
    ),
)


class SkillTransitionTool:
    """Moves the active skill of a lane to another state."""

    manifest = TRANSITION_MANIFEST

    def __init__(self, skills: SkillRegistry, session: SessionStateSource) -> None:
        self._skills = skills
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Decide on the transition. There is no await: the state must not change between decision and event.

        Raises ToolRefused if the current state does not allow it, or if no skill is active.
        """
        skill = self._session.state.skill_of(context.lane)
        spec = None if skill is None else self._skills.of(skill)
        if skill is None or spec is None:
            if arguments["on"] == CANCEL:
                # A cancel that a crash interrupted after its event must succeed when it is
                # repeated.
                return ToolOutput({"ended": True}, "no skill is active")
            raise ToolRefused("no_skill", "No skill is active, so there is no step to leave.")
        proposal = TransitionRequest(
            on=str(arguments["on"]),
            context=cast(JsonObject, arguments["context"]),
            output=cast(JsonObject | None, arguments.get("output")),
        )
        caller = TransitionCaller(context.turn_id, context.call_id)
        return tool_output_of(rule_on_transition(spec, skill, proposal, caller, model_name))
