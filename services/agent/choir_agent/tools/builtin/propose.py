"""`choir.propose.skill`, `.config_change` and `.repo_change`: propose a change to a human.

Nothing is executed. For a branch of the agent's own repository, control reads the branch itself and shows a
human what a merge would change.
"""

import re
from collections.abc import Collection

from choir_agent.control_client.control_client import ControlClient
from choir_agent.skills.skill_parser import InvalidSkill, parse_skill_document
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.proposals.submit import TIMEOUT_MS, submit_proposal
from choir_agent.tools.proposals.validation import reject_code, validate_config_patch
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.model import JsonObject

SKILL_MANIFEST = ToolManifest(
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
    RuntimeView(source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)


class ProposeSkillTool:
    """Proposes skills."""

    manifest = SKILL_MANIFEST

    def __init__(self, control: ControlClient, known_tools: Collection[str]) -> None:
        self._control = control
        self._known_tools = known_tools

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Submit the proposal; raises ToolFailed, naming field and reason, for an invalid skill."""
        try:
            skill = parse_skill_document(arguments["spec"], self._known_tools)
        except InvalidSkill as error:
            details: JsonObject = {"field": error.field}
            raise ToolFailed("bad_input", f"spec.{error.message}", details) from error
        reject_code("spec", arguments["spec"])
        return await submit_proposal(
            self._control, context, "skill", f"the new skill {skill.name}", arguments
        )


CONFIG_MANIFEST = ToolManifest(
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
    RuntimeView(source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)


class ProposeConfigChangeTool:
    """Proposes configuration changes."""

    manifest = CONFIG_MANIFEST

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


REPO_MANIFEST = ToolManifest(
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
    RuntimeView(source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)

REPO_NEXT_STEPS = "What is proposed is pushed: remove your clone from the workspace now."


class ProposeRepoChangeTool:
    """Proposes branches."""

    manifest = REPO_MANIFEST

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
            self._control,
            context,
            "repo_change",
            f"the merge of {branch}",
            arguments,
            REPO_NEXT_STEPS,
        )
