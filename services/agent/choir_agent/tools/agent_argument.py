"""The argument `agent` of `choir.agent.ask` as models see it: the names that the settings allow. Pure."""

from dataclasses import replace

from choir_agent.tools.manifest import ToolManifest
from choir_common.wire.agent_questions import ASK_TOOL
from choir_common.wire.model import JsonObject


def offer_agents(manifest: ToolManifest, names: tuple[str, ...]) -> ToolManifest:
    """Return the manifest with the agents that may be asked."""
    properties = manifest.llm.parameters.get("properties")
    if manifest.name != ASK_TOOL or not isinstance(properties, dict):
        return manifest
    argument: JsonObject = {"type": "string", "enum": [*names]}
    offered: JsonObject = {**properties, "agent": argument}
    parameters: JsonObject = {**manifest.llm.parameters, "properties": offered}
    return replace(manifest, llm=replace(manifest.llm, parameters=parameters))
