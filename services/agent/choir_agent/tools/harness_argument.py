"""The argument `harness` of `choir.core.spawn` as models see it. Pure.

Without a harness in config.json models do not hear of it. The arbiter validates calls against the manifest,
which always has it.
"""

from collections.abc import Mapping
from dataclasses import replace

from choir_agent.tools.builtin.core_spawn import HARNESS, MANIFEST
from choir_agent.tools.manifest import ToolManifest
from choir_common.wire.harness_config import HarnessConfig
from choir_common.wire.model import JsonObject

HarnessOffers = tuple[tuple[str, str], ...]
"""Names of harnesses, each with its description."""


def find_harnesses(harnesses: Mapping[str, HarnessConfig]) -> HarnessOffers:
    """Return the harnesses that may be named, sorted by name."""
    return tuple((name, harnesses[name].description) for name in sorted(harnesses))


def offer_harnesses(manifest: ToolManifest, harnesses: HarnessOffers) -> ToolManifest:
    """Return the manifest with the harnesses that may be named, or without the argument."""
    if manifest.name != MANIFEST.name:
        return manifest
    properties = manifest.llm.parameters.get("properties")
    offered = {**properties} if isinstance(properties, dict) else {}
    if harnesses:
        what = "; ".join(f"{name}: {text}" if text else name for name, text in harnesses)
        offered[HARNESS] = {
            "type": "string",
            "enum": [name for name, _ in harnesses],
            "description": f"a coding agent that does the job instead of you, in the workspace; {what}",
        }
    else:
        offered.pop(HARNESS, None)
    parameters: JsonObject = {**manifest.llm.parameters, "properties": offered}
    return replace(manifest, llm=replace(manifest.llm, parameters=parameters))
