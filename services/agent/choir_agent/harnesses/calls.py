"""The calls that Choir makes for a harness: its start, each prompt, and each permission that it asks for.

They are tools, so that policy, approvals, taint, budgets and the log treat them as other calls. No model is
offered them: `RuntimeView.harness` lets only the harness's own jobs make them.
"""

from choir_agent.provenance.data_flow import INTERNAL, DataFlow
from choir_agent.tools.manifest import LlmView, RuntimeView, SideEffect, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT, OWN_OUTPUT, OutputSource
from choir_common.wire.harness_config import HarnessConfig
from choir_common.wire.model import JsonObject

PREFIX = "harness."
START, PROMPT, PERMISSION = "start", "prompt", "permission"
TIMEOUT_MS = 10_000
_TEXT: JsonObject = {"type": "string"}
_TEXTS: JsonObject = {"type": "array", "items": _TEXT}


def tool_prefix(name: str) -> str:
    """Return how the names of a harness's tools begin."""
    return f"{PREFIX}{name}."


class HarnessTool:
    """A call that only has to be permitted and recorded; the job then does it."""

    def __init__(self, manifest: ToolManifest) -> None:
        self.manifest = manifest

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Return that the call is permitted."""
        return ToolOutput({"status": "permitted"}, "permitted")


def harness_tools(name: str, config: HarnessConfig) -> list[HarnessTool]:
    """Return the tools of a harness."""
    # Its words come from outside as soon as it runs, and what it reads it may send to its hosts.
    flow = DataFlow(
        outside=True,
        private=True,
        sends="network" if config.hosts else "nothing",
        reads_workspace=True,
        writes="files",
    )
    start = _manifest(
        name,
        START,
        "Start the harness with a task.",
        {"task": _TEXT, "hosts": _TEXTS, "resumes": _TEXT},
        flow=flow,
        side_effect="external",
        source=OUTSIDE_OUTPUT,
    )
    prompt = _manifest(
        name, PROMPT, "Send the harness an instruction.", {"text": _TEXT}, side_effect="external"
    )
    permission = _manifest(
        name,
        PERMISSION,
        "Let the harness take a step that it asks about.",
        {"title": _TEXT, "kind": _TEXT, "input": _TEXT, "paths": _TEXTS, "note": _TEXT},
        needs_approval=True,
    )
    return [HarnessTool(manifest) for manifest in (start, prompt, permission)]


def _manifest(
    name: str,
    action: str,
    description: str,
    properties: JsonObject,
    *,
    flow: DataFlow = INTERNAL,
    side_effect: SideEffect = "none",
    source: OutputSource = OWN_OUTPUT,
    needs_approval: bool = False,
) -> ToolManifest:
    parameters: JsonObject = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    return ToolManifest(
        LlmView(f"{tool_prefix(name)}{action}", description, parameters),
        RuntimeView(
            timeout_ms=TIMEOUT_MS,
            side_effect=side_effect,
            # The call itself does nothing, so it may be repeated after a crash.
            idempotent=True,
            source=source,
            flow=flow,
            needs_approval=needs_approval,
            lanes="core",
            harness=name,
        ),
    )
