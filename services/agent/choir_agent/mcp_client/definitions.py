"""Definitions of a server's tools: which are offered, under which names, and what a person approves. Pure.

All of it is text of the server's author. What the model reads is what a person was shown: invisible
characters are spelled out for both.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

import orjson

from choir_agent.tools.schema_editing import edit_schemas
from choir_common.errors import ChoirError
from choir_common.escape_text import escape_hidden
from choir_common.eventlog.chain import canonical_json
from choir_common.eventlog.json_scrubbing import is_too_deep
from choir_common.i18n import _
from choir_common.json_schema import find_schema_fault
from choir_common.wire.mcp_config import McpServerConfig
from choir_common.wire.model import JsonObject

PREFIX = "mcp."
MAX_TOOLS = 100
"""Offered tools of a server; a model chooses badly among more."""
MAX_DEFINITION_BYTES = 150_000
"""All offered definitions of a server; a request for approval takes 200 kB."""
MAX_NAME = 128
MAX_MODEL_NAME = 64
"""Limit of OpenAI and Anthropic on function names."""
MAX_DESCRIPTION = 4_000
"""Characters of a description that a model gets."""
SHOWN_FIELDS = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a person approves of a tool. Icons and `_meta` reach neither a model nor a person."""
Method = Literal["tools/call", "resources/list", "resources/read", "prompts/list", "prompts/get"]
"""The request that a tool of a server is."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_TEXTS = frozenset({"title", "description", "$comment"})


class InvalidTools(ChoirError):
    """The list of a server's tools cannot be offered as a whole."""

    code, status = "invalid_tools", 422


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool of a server."""

    name: str
    """Its name at the server."""
    canonical: str
    """Its name in Choir."""
    content: JsonObject
    """What a person approves."""
    description: str
    """What the model reads."""
    parameters: JsonObject
    read_only: bool
    """Whether the operator says that it changes nothing."""
    method: Method = "tools/call"
    """Others than `tools/call` are Choir's own definitions; see `content_tools`."""


@dataclass(frozen=True, slots=True)
class ServerTools:
    """All tools of a server that can be offered, and what was left out."""

    tools: tuple[ToolDefinition, ...]
    left_out: tuple[str, ...] = ()
    """Why others are not offered, one text for each."""
    content: tuple[ToolDefinition, ...] = ()
    """Choir's own tools for the server's resources and prompts."""


def approval_payload(server: str, config: McpServerConfig, tools: ServerTools) -> JsonObject:
    """Return what a person approves: which program or address, and every definition."""
    what: JsonObject = {"url": config.url} if config.url else {"command": [*config.command]}
    payload: JsonObject = {
        "server": server,
        **what,
        "tools": [tool.content for tool in tools.tools],
    }
    if tools.content:
        # Their texts are Choir's: only which of them there are is the server's choice.
        payload["content_tools"] = [tool.name for tool in tools.content]
    return payload


def payload_hash(payload: JsonObject) -> str:
    """Return the SHA-256 by which the definitions are pinned."""
    return hashlib.sha256(canonical_json(payload)).hexdigest()


def read_tools(server: str, config: McpServerConfig, listed: Sequence[JsonObject]) -> ServerTools:
    """Return the tools that can be offered, sorted by name.

    Blocks: it compiles the schemas. Raises InvalidTools if they are too many or too large.
    """
    selection = [tool for tool in listed if matches_any(str(tool.get("name")), config.tools)]
    if len(selection) > MAX_TOOLS:
        raise InvalidTools(
            _(
                "It lists {count} tools; at most {max_tools} are offered. Choose some with "
                "`mcp.servers.{server}.tools`."
            ).format(count=len(selection), max_tools=MAX_TOOLS, server=server)
        )
    names = Counter(canonical_name(server, str(tool.get("name"))) for tool in selection)
    tools: list[ToolDefinition] = []
    left_out: list[str] = []
    for tool in selection:
        name = str(tool.get("name"))
        fault = _find_fault(tool)
        if names[canonical_name(server, name)] > 1:
            fault = "another tool of this server has the same name in Choir"
        if fault is None:
            tools.append(_definition(server, config, tool))
        else:
            left_out.append(f"{escape_hidden(name[:60], keep='')}: {fault}")
    size = sum(len(orjson.dumps(tool.content)) for tool in tools)
    if size > MAX_DEFINITION_BYTES:
        raise InvalidTools(
            _(
                "The definitions of its tools take {size} bytes; the limit is {max_definition_bytes}. "
                "Choose some with `mcp.servers.{server}.tools`."
            ).format(size=size, max_definition_bytes=MAX_DEFINITION_BYTES, server=server)
        )
    return ServerTools(tuple(sorted(tools, key=lambda tool: tool.canonical)), tuple(left_out))


def tool_prefix(server: str) -> str:
    """Return the beginning of the names of a server's tools."""
    return f"{PREFIX}{server}."


def canonical_name(server: str, name: str) -> str:
    """Return a tool's name in Choir: letters, digits, `_` and `-` only, short enough for every model."""
    safe = _UNSAFE.sub("_", name)
    prefix = tool_prefix(server)
    most = MAX_MODEL_NAME - len(prefix)
    if len(safe) > most:
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        safe = f"{safe[: most - 9]}_{digest}"
    return f"{prefix}{safe}"


def _find_fault(tool: JsonObject) -> str | None:
    name, schema = tool.get("name"), tool.get("inputSchema")
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME:
        return f"its name has not 1 to {MAX_NAME} characters"
    if not name.isprintable() or escape_hidden(name, keep="") != name:
        return "its name contains invisible characters"
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return "its inputSchema is not of type object"
    if is_too_deep(tool):
        return "its definition is nested too deeply"
    text = orjson.dumps(_clean_schema(schema)).decode("utf-8", "replace")
    if escape_hidden(text, keep="") != text:
        return "its inputSchema contains invisible characters outside of descriptions"
    fault = find_schema_fault(schema)
    return None if fault is None else f"its inputSchema is invalid: {fault[:120]}"


def _definition(server: str, config: McpServerConfig, tool: JsonObject) -> ToolDefinition:
    name, schema = str(tool["name"]), tool["inputSchema"]
    text = escape_hidden(str(tool.get("description") or tool.get("title") or ""))
    cut = text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]}…"
    return ToolDefinition(
        name=name,
        canonical=canonical_name(server, name),
        content={key: tool[key] for key in SHOWN_FIELDS if tool.get(key) is not None},
        description=f"[MCP server {server}] {cut}".rstrip(),
        parameters=_clean_schema(schema) if isinstance(schema, dict) else {},
        read_only=matches_any(name, config.read_only),
    )


def _clean_schema(schema: JsonObject) -> JsonObject:
    """Return a schema for a model, with the invisible characters of its descriptions spelled out."""
    return edit_schemas(schema, _clean_texts)


def _clean_texts(schema: JsonObject) -> JsonObject:
    return {
        key: escape_hidden(value)[:MAX_DESCRIPTION]
        if key in _TEXTS and isinstance(value, str)
        else value
        for key, value in schema.items()
    }


def matches_any(name: str, patterns: Iterable[str]) -> bool:
    """Return whether a tool's name at the server matches a pattern of config.json."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
