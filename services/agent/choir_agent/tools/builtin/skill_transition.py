"""`choir.skill.transition`: move the active skill to its next state.

Called by the arbiter without locks; its only effect is one event, which changes the lane's state.
"""

from collections.abc import Callable
from typing import cast

from choir_agent.log.session_state import SessionState
from choir_agent.skills.skill_engine import TransitionCaller, TransitionRequest, rule_on_transition
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.skills.skill_spec import CANCEL, TRANSITION_TOOL
from choir_agent.tools.builtin.skill_start import tool_output_of
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.tool import CallContext, ToolOutput, ToolRefused
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
    LlmView(
        name=TRANSITION_TOOL,
        description=(
            "Leave the present step of the active skill. `on`: one of the ways on that the step names; "
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
        timeout_ms=5_000, side_effect="none", idempotent=True, during_jobs=True, in_skills=True
    ),
)


class SkillTransitionTool:
    """Moves the active skill of a lane to another state."""

    manifest = MANIFEST

    def __init__(self, skills: SkillRegistry, state: Callable[[], SessionState]) -> None:
        self._skills = skills
        self._state = state

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Decide on the transition. There is no await: the state must not change between decision and event.

        Raises ToolRefused if the current state does not allow it, or if no skill is active.
        """
        skill = self._state().skill_of(context.lane)
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
