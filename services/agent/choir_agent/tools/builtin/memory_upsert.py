"""`choir.memory.upsert`: insert, update by key, or delete the agent's own knowledge.

Runs without locks, after the commitment is durable. The host applies it once per call_id.
"""

from choir_agent.control_client.control_client import ControlClient
from choir_agent.log.session_state import SessionStateSource
from choir_agent.provenance.taint_fold import is_as_trusted_as_pages
from choir_agent.tools.host_tools import run_host_tool
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.events import MemoryWriteCommitted
from choir_common.wire.model import JsonObject

TIMEOUT_MS = 30_000

MANIFEST = ToolManifest(
    LlmView(
        name="choir.memory.upsert",
        description=(
            "Change lasting knowledge. operation `insert`: add text; `update`: replace or make the "
            "document of `key`; `delete`: remove the document of `key` or `document_id`. Use a short "
            "stable key for facts that may change, such as user.timezone. With expected_version (the "
            "`version` of a hit or an earlier result) nothing is changed if another write happened in "
            "between. Do not delete what is no longer true: name it in `supersedes` (key or id) when you "
            "write what is true now, or update it with `valid_to` or status `retired` and no text; searches "
            "then omit it. metadata.scope: its project or topic."
        ),
        parameters={
            "type": "object",
            "properties": {
                "operation": {"type": "string", "enum": ["insert", "update", "delete"]},
                "text": {"type": "string", "minLength": 1, "maxLength": 100_000},
                "key": {"type": "string", "minLength": 1, "maxLength": 200},
                "document_id": {"type": "string"},
                "metadata": {"type": "object"},
                "expected_version": {"type": "integer", "minimum": 0},
                "status": {"type": "string", "enum": ["active", "held", "retired"]},
                "valid_from": {"type": "string", "description": "ISO date or time"},
                "valid_to": {"type": "string", "description": "inclusive"},
                "supersedes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["operation"],
            "additionalProperties": False,
        },
    ),
    RuntimeView(
        source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="write", idempotent=True, host=True
    ),
)


class MemoryUpsertTool:
    """Writes knowledge through the host."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient, session: SessionStateSource) -> None:
        self._control = control
        self._session = session

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Write the document; raises ToolFailed with the host's error."""
        # Not an argument of the model: a web page may have persuaded it to write.
        lane_taint = self._session.state.taint.lane(context.lane)
        input_ = arguments
        if is_as_trusted_as_pages(lane_taint):
            input_ = {**arguments, "outside": True}
        elif lane_taint.trust < OWN_OUTPUT.trust:
            input_ = {**arguments, "least_trust": lane_taint.trust}
        output = await run_host_tool(self._control, context, MANIFEST, input_)
        document, key = output.get("document_id"), output.get("key")
        write = MemoryWriteCommitted(
            turn_id=context.turn_id,
            call_id=context.call_id,
            operation=str(output.get("operation", arguments["operation"])),
            document_id=document if isinstance(document, str) else None,
            key=key if isinstance(key, str) else None,
        )
        key_suffix = f" under {key!r}" if isinstance(key, str) else ""
        return ToolOutput(output, f"knowledge {write.operation}{key_suffix}", (write,))
