"""A tool of an MCP server, as the agent's other tools."""

from typing import Protocol

from choir_agent.mcp_client.call_progress import MAX_PAUSE_S, longest_s
from choir_agent.mcp_client.definitions import ToolDefinition
from choir_agent.provenance.data_flow import DataFlow
from choir_agent.tools.manifest import LlmView, LockTemplate, RuntimeView, ToolManifest
from choir_agent.tools.tool import CallContext, ToolOutput
from choir_common.eventlog.tool_results import OUTSIDE_OUTPUT
from choir_common.wire.mcp_config import McpServerConfig
from choir_common.wire.model import JsonObject

# Margin of the arbiter's timeout above the request's own, which must expire first.
TIMEOUT_MARGIN_MS = 5_000
MAX_OUTPUT = 60_000
"""Bytes of a result in a prompt; an artifact has all of it."""


class ToolCaller(Protocol):
    """A running server that can be called."""

    async def call(
        self, tool: ToolDefinition, arguments: JsonObject, context: CallContext
    ) -> ToolOutput:
        """Call a tool; raises ToolFailed."""
        ...


class McpTool:
    """A tool of an MCP server."""

    def __init__(
        self, manifest: ToolManifest, definition: ToolDefinition, server: ToolCaller
    ) -> None:
        self.manifest = manifest
        self._definition = definition
        self._server = server

    async def run(self, context: CallContext, arguments: JsonObject) -> ToolOutput:
        """Call the server; raises ToolFailed if it does not answer, or answers with an error."""
        return await self._server.call(self._definition, arguments, context)


def tool_manifest(
    server: str, config: McpServerConfig, tool: ToolDefinition, pin: str
) -> ToolManifest:
    """Return the manifest of a tool. Nothing that the server says of it makes it more trusted."""
    # While a person or a model answers the server, the time of the call stands still.
    asks_s = MAX_PAUSE_S if config.elicitation or config.sampling else 0.0
    longest_ms = int((longest_s(config.timeout_ms / 1000) + asks_s) * 1000)
    has_network = config.url is not None or bool(config.hosts)
    return ToolManifest(
        LlmView(tool.canonical, tool.description, tool.parameters),
        RuntimeView(
            timeout_ms=longest_ms + TIMEOUT_MARGIN_MS,
            side_effect="read" if tool.read_only else "external",
            idempotent=False,
            source=OUTSIDE_OUTPUT,
            flow=DataFlow(
                outside=True,
                private=bool(config.workspace or config.secret_names()),
                sends="network" if has_network and not tool.read_only else "nothing",
                reads_workspace=config.workspace,
                writes="files" if config.workspace else "listed",
            ),
            locks=_locks(server, config, tool),
            max_output=MAX_OUTPUT,
            network=has_network,
            version=pin[:12],
            executable_hash=pin,
        ),
    )


def _locks(server: str, config: McpServerConfig, tool: ToolDefinition) -> tuple[LockTemplate, ...]:
    """Return the locks: a server has state, so only its reading tools run beside each other."""
    own = LockTemplate(f"mcp:{server}", "S" if tool.read_only else "X")
    if not config.workspace:
        return (own,)
    return (own, LockTemplate("workspace", "S" if tool.read_only else "X"))
