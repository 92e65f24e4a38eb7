"""`choir.skill.start`: start a skill.

Called by the arbiter without locks; its only effect is one event, which changes the lane's state.
"""

from collections.abc import Callable
from typing import cast

from choir_agent.log.state import EDGE, SessionState
from choir_agent.skills.engine import Caller, Refused, Ruling, start
from choir_agent.skills.registry import Skills
from choir_agent.skills.spec import START_TOOL
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput, ToolRefused
from choir_common.wire.json import JsonObject

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


class SkillStart:
    """Starts skills."""

    manifest = MANIFEST

    def __init__(self, skills: Skills, state: Callable[[], SessionState]) -> None:
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
        caller = Caller(context.turn_id, context.call_id)
        state = self._state()
        present = state.skill(context.lane)
        if present is None and context.lane == EDGE:
            # A skill of a parked turn becomes active again when the turn resumes.
            present = state.parked_skill
        return told(start(spec, present, given, caller))


def told(ruling: Ruling) -> ToolOutput:
    """Return the skill engine's decision as a tool's output.

    Raises ToolRefused with the alternatives that the model has.
    """
    if isinstance(ruling, Refused):
        details = dict(ruling.error)
        kind, message = str(details.pop("code")), str(details.pop("message"))
        raise ToolRefused(kind, message, details)
    state = ruling.output.get("state")
    ended = ruling.output.get("ended") is True
    summary = f"the skill has ended in {state}" if ended else f"the skill is in {state}"
    return ToolOutput(ruling.output, summary, ruling.events)
