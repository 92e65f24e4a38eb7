"""`choir.memory.compact`: fold the calling lane's old events into its reference summary.

Runs without locks. It only requests the compaction; `compaction` runs it concurrently with the lane.
"""

from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.events import CompactionRequested
from choir_common.wire.model import JsonObject

MANIFEST = ToolManifest(
    LlmView(
        name="choir.memory.compact",
        description=(
            "Fold the older part of this conversation into your reference summary, to make room. It "
            "happens by itself when room gets short; use it when a topic is closed. You go on at once; "
            "what was folded stays searchable with the memory query tool, store `working`."
        ),
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    ),
    RuntimeView(
        source=OWN_OUTPUT,
        timeout_ms=5_000,
        side_effect="none",
        idempotent=True,
        during_jobs=True,
    ),
)


class MemoryCompactTool:
    """Requests a compaction of the calling lane."""

    manifest = MANIFEST

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Request it; repeating the request, for example after a crash, has no effect."""
        output: JsonObject = {
            "message": "The older events are being folded in the background; continue."
        }
        return ToolOutput(
            output, "the older events are being folded", (CompactionRequested(target=context.lane),)
        )
