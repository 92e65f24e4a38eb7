"""`choir.memory.collections`: list the collections of documents in the agent's memory."""

import orjson

from choir_agent.control_client.control_client import ControlClient
from choir_agent.tools.host_tools import run_host_tool
from choir_agent.tools.manifest import LlmView, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OWN_OUTPUT
from choir_common.wire.memory_collections import Collections
from choir_common.wire.model import JsonObject

TIMEOUT_MS = 20_000

MANIFEST = ToolManifest(
    LlmView(
        name="choir.memory.collections",
        description=(
            "List the document collections (folders, manuals, notes) that people gave you. Search one "
            "with choir.memory.query, store `knowledge` and its name as `collection`."
        ),
        parameters={"type": "object", "properties": {}, "additionalProperties": False},
    ),
    RuntimeView(
        source=OWN_OUTPUT, timeout_ms=TIMEOUT_MS, side_effect="none", idempotent=True, host=True
    ),
)


class MemoryCollectionsTool:
    """Lists collections through the host."""

    manifest = MANIFEST

    def __init__(self, control: ControlClient) -> None:
        self._control = control

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Return names and sizes; raises ToolFailed with the host's error."""
        answer = await run_host_tool(self._control, context, MANIFEST, arguments)
        views = Collections.model_validate_json(orjson.dumps(answer)).collections
        output: JsonObject = {
            "collections": [
                {
                    "name": view.name,
                    "documents": view.documents,
                    **({"not_read_yet": view.folder.waiting} if view.folder else {}),
                }
                for view in views
            ]
        }
        if not views:
            output["note"] = "There are no collections."
        return ToolOutput(output, f"{len(views)} collections")
