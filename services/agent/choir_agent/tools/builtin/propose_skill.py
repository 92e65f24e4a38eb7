"""`choir.propose.skill`: propose a new skill to a human.

Called by the arbiter without locks; nothing is executed. Submits through `proposals.submit`.
"""

from collections.abc import Callable, Collection

from choir_agent.control_client.control_client import ControlClient
from choir_agent.skills.skill_parser import InvalidSkill, parse_skill_document
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.proposals.submit import TIMEOUT_MS, submit_proposal
from choir_agent.tools.proposals.validation import reject_code
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
    LlmView(
        name="choir.propose.skill",
        description=(
            "Propose a new skill to a human, who decides later. `spec` is a SkillSpec: name, description, "
            "initial_state, states (each with objective, allowed_tools and transitions [{on, to}], or "
            "terminal: true), max_steps. Nothing changes now."
        ),
        parameters={
            "type": "object",
            "properties": {
                "spec": {"type": "object"},
                "reason": {"type": "string", "minLength": 5, "maxLength": 2000},
            },
            "required": ["spec", "reason"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)


class ProposeSkillTool:
    """Proposes skills."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient, known: Callable[[], Collection[str]]) -> None:
        self._control = control
        self._known = known

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Submit the proposal; raises ToolFailed, naming field and reason, for an invalid skill."""
        try:
            skill = parse_skill_document(arguments["spec"], self._known())
        except InvalidSkill as error:
            details: JsonObject = {"field": error.field}
            raise ToolFailed("bad_input", f"spec.{error.message}", details) from error
        reject_code("spec", arguments["spec"])
        return await submit_proposal(
            self._control, context, "skill", f"the new skill {skill.name}", arguments
        )
