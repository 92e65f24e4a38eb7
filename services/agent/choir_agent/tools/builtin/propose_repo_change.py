"""`choir.propose.repo_change`: propose a pushed branch of the agent's own repository to a human.

Called by the arbiter without locks; nothing is executed. Submits through `proposals.submit`.
Control reads the branch itself and shows a human what a merge would change.
"""

import re

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.proposals.submit import TIMEOUT_MS, submit_proposal
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
    LlmView(
        name="choir.propose.repo_change",
        description=(
            "Propose changes of your own repository (tools, skills, identity) to a human, who decides "
            "later. First clone it into the workspace, commit, and push the branch "
            "`proposal/<session id>/<few-words>`; then name it here with its newest commit. Only when the "
            "user asked for it. Nothing changes now; when it is approved, it is merged and you are updated."
        ),
        parameters={
            "type": "object",
            "properties": {
                "branch": {
                    "type": "string",
                    "maxLength": 200,
                    "pattern": "^proposal/[A-Za-z0-9_-]+/[a-z0-9][a-z0-9-]{0,60}$",
                },
                "commit": {
                    "type": "string",
                    "pattern": "^[0-9a-f]{40}([0-9a-f]{24})?$",
                    "description": "the whole id, as `git rev-parse HEAD` says it",
                },
                "reason": {"type": "string", "minLength": 5, "maxLength": 2000},
            },
            "required": ["branch", "commit", "reason"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)

NEXT_STEPS = "What is proposed is pushed: remove your clone from the workspace now."


class ProposeRepoChangeTool:
    """Proposes branches."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Submit the proposal; raises ToolFailed for another session's branch, or if control rejects it."""
        session_id, branch = self._control.session_id, str(arguments["branch"])
        if not re.match(rf"proposal/{re.escape(session_id)}/", branch):
            raise ToolFailed(
                "bad_input",
                f"branch: this session's branches begin with proposal/{session_id}/; push it under such a "
                "name.",
            )
        return await submit_proposal(
            self._control, context, "repo_change", f"the merge of {branch}", arguments, NEXT_STEPS
        )
