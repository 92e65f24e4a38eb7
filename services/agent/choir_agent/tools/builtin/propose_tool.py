"""`choir.propose.tool`: propose a new tool to a human.

Nothing is executed. A human who approves the proposal writes the tool and registers it.
"""

from collections.abc import Collection

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.proposals.submit import TIMEOUT_MS, submit_proposal
from choir_agent.tools.proposals.validation import validate_tool_proposal
from choir_agent.tools.tool import CallContext, ToolFailed, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.model import JsonObject

# Same patterns as in ToolManifestFile, repeated so that the model sees them in the schema.
_LOCK = "^(workspace|browser_tab|choirtmp|file:\\{path\\}|(mem|repo|net|ext):[a-z0-9_-]{1,60})$"
_LLM: JsonObject = {
    "type": "object",
    "properties": {
        "name": {
            "type": "string",
            "maxLength": 60,
            "pattern": "^[a-z][a-z0-9_]*(\\.[a-z][a-z0-9_]*)+$",
            "description": "a namespace of its own and a name, as in `weather.today`; not `choir.`",
        },
        "description": {"type": "string", "minLength": 10, "maxLength": 2000},
        "parameters": {"type": "object", "description": "JSON Schema of the input"},
    },
    "required": ["name", "description", "parameters"],
    "additionalProperties": False,
}
_RUNTIME: JsonObject = {
    "type": "object",
    "properties": {
        "timeout_ms": {"type": "integer", "minimum": 100, "maximum": 600_000},
        "side_effect": {"type": "string", "enum": ["none", "read", "write", "external"]},
        "idempotent": {"type": "boolean"},
        "locks": {
            "type": "array",
            "maxItems": 10,
            "items": {
                "type": "object",
                "properties": {
                    "resource": {"type": "string", "pattern": _LOCK},
                    "mode": {"type": "string", "enum": ["S", "X"]},
                },
                "required": ["resource", "mode"],
                "additionalProperties": False,
            },
        },
        "network": {"type": "boolean"},
        "secret_resources": {
            "type": "array",
            "uniqueItems": True,
            "items": {"enum": ["git_identity", "notion", "email", "search", "voice_profile"]},
        },
        "needs_approval": {"type": "boolean"},
        "lanes": {"type": "string", "enum": ["edge", "core", "both"]},
        "exposure": {"type": "string", "enum": ["edge", "core", "both", "none"]},
        "prompt_mask": {"type": "boolean"},
        "version": {"type": "string", "pattern": "^\\d+(\\.\\d+){0,2}$"},
    },
    "required": ["timeout_ms", "side_effect", "idempotent"],
    "additionalProperties": False,
}

MANIFEST = ToolManifest(
    LlmView(
        name="choir.propose.tool",
        description=(
            "Propose a new tool to a human, who decides later and writes it. Describe in words what it "
            "should do; a proposal contains no code. Nothing changes now."
        ),
        parameters={
            "type": "object",
            "properties": {
                "manifest": {
                    "type": "object",
                    "properties": {"llm": _LLM, "runtime": _RUNTIME},
                    "required": ["llm", "runtime"],
                    "additionalProperties": False,
                },
                "behaviour": {
                    "type": "string",
                    "minLength": 20,
                    "maxLength": 8000,
                    "description": "what it does, step by step, its output and its errors",
                },
                "reason": {"type": "string", "minLength": 5, "maxLength": 2000},
            },
            "required": ["manifest", "behaviour", "reason"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True),
)


class ProposeToolTool:
    """Proposes tools."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient, known_tools: Collection[str]) -> None:
        self._control = control
        self._known_tools = known_tools

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Submit the proposal; raises ToolFailed for an invalid manifest."""
        manifest = arguments["manifest"]
        if not isinstance(manifest, dict):
            raise ToolFailed("bad_input", "manifest is an object.")
        name = validate_tool_proposal(manifest, str(arguments["behaviour"]), self._known_tools)
        return await submit_proposal(
            self._control, context, "tool", f"the new tool {name}", arguments
        )
