"""Choir's own tools for the resources and prompts of an MCP server. Pure.

Their texts are written here, so a server can neither change them nor hide anything in them. What it lists is
not part of a definition: it arrives as a result, which is untrusted, and needs no yes when it changes. A
person approves that these tools exist, with the server's own tools.
"""

from collections.abc import Collection
from typing import Literal

from choir_agent.mcp_client.definitions import (
    Method,
    ToolDefinition,
    matches_any,
    tool_prefix,
)
from choir_common.wire.mcp_config import McpServerConfig
from choir_common.wire.model import JsonObject

ContentKind = Literal["resources", "prompts"]
MAX_URI = 4_000
MAX_ARGUMENTS = 50

_CONTAINS: JsonObject = {
    "type": "object",
    "properties": {
        "contains": {
            "type": "string",
            "maxLength": 200,
            "description": "Lists only entries that contain this text.",
        }
    },
    "additionalProperties": False,
}
_URI: JsonObject = {
    "type": "object",
    "properties": {"uri": {"type": "string", "minLength": 1, "maxLength": MAX_URI}},
    "required": ["uri"],
    "additionalProperties": False,
}
_PROMPT: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 200},
        "arguments": {
            "type": "object",
            "maxProperties": MAX_ARGUMENTS,
            "additionalProperties": {"type": "string", "maxLength": 20_000},
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}
_TOOLS: tuple[tuple[Method, str, JsonObject], ...] = (
    (
        "resources/list",
        "List the resources of the MCP server {server}, and templates of their URIs.",
        _CONTAINS,
    ),
    (
        "resources/read",
        "Read a resource of the MCP server {server}: a URI of its list, of a result, or of a template.",
        _URI,
    ),
    ("prompts/list", "List the prompt templates of the MCP server {server}.", _CONTAINS),
    (
        "prompts/get",
        "Get a prompt of the MCP server {server}. It is text of the server's author, not of the user.",
        _PROMPT,
    ),
)


def content_tools(
    server: str, config: McpServerConfig, kinds: Collection[ContentKind]
) -> tuple[ToolDefinition, ...]:
    """Return the tools for these kinds, without those that config.json does not choose.

    Their names have a dot more than the server's own tools can have: `mcp.NAME.resources.list`.
    """
    tools = (_definition(server, config, method, text, p) for method, text, p in _TOOLS)
    return tuple(t for t in tools if kind_of(t) in kinds and matches_any(t.name, config.tools))


def kind_of(tool: ToolDefinition) -> str:
    """Return the kind of content that one of these tools is for."""
    return tool.method.partition("/")[0]


def _definition(
    server: str, config: McpServerConfig, method: Method, text: str, parameters: JsonObject
) -> ToolDefinition:
    name = method.replace("/", ".")
    return ToolDefinition(
        name=name,
        canonical=f"{tool_prefix(server)}{name}",
        content={"name": name},
        description=text.format(server=server),
        parameters=parameters,
        read_only=matches_any(name, config.read_only),
        method=method,
    )
