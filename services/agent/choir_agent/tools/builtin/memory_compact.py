"""`choir.memory.compact`: fold the calling lane's old events into its summary (spec 11.3, 11.7).

Called by the arbiter without locks. It only asks for it: `compaction` does it beside the lane.
"""

from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.wire.events import CompactionRequested
from choir_common.wire.json import JsonObject

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
        timeout_ms=5_000,
        side_effect="none",
        idempotent=True,
        during_jobs=True,
    ),
)


class MemoryCompact:
    """Asks for a compaction of the lane that calls it."""

    manifest = MANIFEST

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Ask for it; asking again, as after a crash, does no harm."""
        output: JsonObject = {"message": "The older events are being folded beside you; go on."}
        return ToolOutput(
            output, "the older events are being folded", (CompactionRequested(target=context.lane),)
        )
