"""`choir.propose.config_change`: propose a configuration change to a human.

Called by the arbiter without locks; nothing is executed. Submits through `proposals.submit`.
"""

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.proposals.submit import TIMEOUT_MS, submit_proposal
from choir_agent.tools.proposals.validation import validate_config_patch
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
    LlmView(
        name="choir.propose.config_change",
        description=(
            "Propose a change of the configuration to a human, who decides later. `patch` is a JSON merge "
            'patch (RFC 7396) of config.json, such as {"budgets": {"max_core_jobs": 4}}. Only budgets, '
            "how models and voices behave, your own defaults and working memory can be proposed. Nothing "
            "changes now."
        ),
        parameters={
            "type": "object",
            "properties": {
                "patch": {"type": "object", "minProperties": 1},
                "reason": {"type": "string", "minLength": 5, "maxLength": 2000},
            },
            "required": ["patch", "reason"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)


class ProposeConfigChangeTool:
    """Proposes configuration changes."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Submit the proposal; raises ToolFailed for keys or values that cannot be proposed."""
        patch = arguments["patch"]
        if not isinstance(patch, dict):
            raise ToolFailed("bad_input", "patch is an object.")
        what = validate_config_patch(patch, self._control.agent_id)
        return await submit_proposal(
            self._control, context, "config_change", f"a change of {what}", arguments
        )
