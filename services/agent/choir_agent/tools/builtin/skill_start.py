"""`choir.skill.start`: start a skill.

Called by the arbiter without locks; its only effect is one event, which changes the lane's state.
"""

from collections.abc import Callable
from typing import cast

from choir_agent.log.session_state import EDGE_LANE, SessionState
from choir_agent.skills.skill_engine import (
    TransitionCaller,
    TransitionRefused,
    TransitionRuling,
    start_skill,
)
from choir_agent.skills.skill_registry import SkillRegistry
from choir_agent.skills.skill_spec import START_TOOL
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput, ToolRefused
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
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
    RuntimeView(timeout_ms=5_000, side_effect="none", idempotent=True, during_jobs=True),
)


class SkillStartTool:
    """Starts skills."""

    manifest = MANIFEST

    def __init__(self, skills: SkillRegistry, state: Callable[[], SessionState]) -> None:
        self._skills = skills
        self._state = state

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Decide on the start. There is no await: the state must not change between decision and event.

        Raises ToolRefused for an unknown skill, an invalid input, or while a skill is active.
        """
        name = str(arguments["skill"])
        spec = self._skills.find(name)
        if spec is None:
            known: JsonObject = {"available_skills": [*self._skills.names()]}
            raise ToolRefused("unknown_skill", f"There is no skill {name!r}.", known)
        given = cast(JsonObject, arguments.get("input", {}))
        caller = TransitionCaller(context.turn_id, context.call_id)
        state = self._state()
        present = state.skill_of(context.lane)
        if present is None and context.lane == EDGE_LANE:
            # A skill of a parked turn becomes active again when the turn resumes.
            present = state.parked_skill
        return tool_output_of(start_skill(spec, present, given, caller))


def tool_output_of(ruling: TransitionRuling) -> ToolOutput:
    """Return the skill engine's decision as a tool's output.

    Raises ToolRefused with the alternatives that the model has.
    """
    if isinstance(ruling, TransitionRefused):
        details = dict(ruling.error)
        kind, message = str(details.pop("code")), str(details.pop("message"))
        raise ToolRefused(kind, message, details)
    state = ruling.output.get("state")
    ended = ruling.output.get("ended") is True
    summary = f"the skill has ended in {state}" if ended else f"the skill is in {state}"
    return ToolOutput(ruling.output, summary, ruling.events)
