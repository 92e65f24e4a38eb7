"""Definitions of MCP tools: names, limits, and what the model reads."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx2
import pytest

from choir_agent.mcp_client.content_results import content_output
from choir_agent.mcp_client.content_tools import ContentKind, content_tools
from choir_agent.mcp_client.definitions import (
    InvalidTools,
    ToolDefinition,
    approval_payload,
    canonical_name,
    payload_hash,
    read_tools,
)
from choir_agent.mcp_client.http_transport import LimitedTransport
from choir_agent.mcp_client.results import tool_output
from choir_agent.mcp_client.server_tool import McpTool, tool_manifest
from choir_agent.tools.model_view import model_name
from choir_agent.tools.registry import ToolRegistry
from choir_agent.tools.tool import ToolFailed, ToolOutput
from choir_common.approvals import LineKind, request_lines
from choir_common.wire.mcp_config import McpConfig, McpServerConfig
from choir_common.wire.model import JsonObject

CONFIG = McpServerConfig(command=("server",), agents=("main",))


class NoServer:
    """A server that is never called."""

    async def call(self, tool: ToolDefinition, arguments: JsonObject) -> ToolOutput:
        raise AssertionError


def tool(name: str = "today", description: str = "The weather.", **more: object) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
    return {"name": name, "description": description, "inputSchema": schema, **more}  # type: ignore[dict-item]


@pytest.mark.parametrize("name", ["a", "a.b", "../x", "choir.exec", "x" * 128, "né", "a b"])
def test_a_name_is_valid_for_every_model_and_stays_below_its_server(name: str) -> None:
    canonical = canonical_name("weather", name)
    shown = model_name(canonical)
    assert canonical.startswith("mcp.weather.") and canonical.count(".") == 2
    assert len(shown) <= 64 and shown.isascii()


def test_long_names_that_differ_at_the_end_stay_different() -> None:
    first, second = (canonical_name("weather", "x" * 100 + end) for end in "ab")
    assert first != second


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ([tool("a.b"), tool("a b")], "same name"),
        ([tool("a\u200b")], "invisible"),
        ([tool(inputSchema={"type": "object", "properties": {"a\u202e": {}}})], "invisible"),
        ([tool(inputSchema={"type": "string"})], "not of type object"),
        ([tool(inputSchema={"type": "object", "properties": {"a": {"type": 7}}})], "invalid"),
        ([tool(inputSchema={"type": "object", "$ref": "http://127.0.0.1/x"})], "invalid"),
        ([tool("")], "1 to 128"),
    ],
)
def test_a_tool_that_cannot_be_offered_is_left_out_and_named(
    listed: list[JsonObject], why: str
) -> None:
    tools = read_tools("weather", CONFIG, listed)
    assert tools.tools == () and why in tools.left_out[0]


def test_too_many_and_too_large_definitions_are_refused_unless_some_are_chosen() -> None:
    many = [tool(f"t{number}") for number in range(101)]
    with pytest.raises(InvalidTools, match="at most 100"):
        read_tools("weather", CONFIG, many)
    with pytest.raises(InvalidTools, match="limit is 150000"):
        read_tools("weather", CONFIG, [tool(description="x" * 200_000)])
    chosen = CONFIG.model_copy(update={"tools": ("t1",)})
    assert [it.name for it in read_tools("weather", chosen, many).tools] == ["t1"]


def test_the_pin_covers_everything_that_a_person_or_a_model_reads() -> None:
    first = payload_hash(approval_payload("w", CONFIG, read_tools("w", CONFIG, [tool()])))
    changes = [
        {"description": "The weather. "},
        {"title": "Weather"},
        {"annotations": {"readOnlyHint": True}},
        {"outputSchema": {"type": "object"}},
        {"inputSchema": {"type": "object", "properties": {"city": {"description": "x"}}}},
    ]
    for change in changes:
        listed = [{**tool(), **change}]
        assert payload_hash(approval_payload("w", CONFIG, read_tools("w", CONFIG, listed))) != first


def test_tools_for_resources_are_chosen_as_others_and_a_new_one_asks_again() -> None:
    none = read_tools("w", CONFIG, [tool("resources.list")])
    kinds: tuple[ContentKind, ...] = ("resources", "prompts")
    made = content_tools("w", CONFIG, kinds)
    assert all(model_name(it.canonical).isascii() for it in made) and len(made) == 4
    # no name of a server's tool can be the same
    assert none.tools[0].canonical not in {it.canonical for it in made}
    chosen = CONFIG.model_copy(update={"tools": ("resources.*",), "read_only": ("*.read",)})
    assert [(it.name, it.read_only) for it in content_tools("w", chosen, kinds)] == [
        ("resources.list", False),
        ("resources.read", True),
    ]
    before = approval_payload("w", CONFIG, none)
    after = approval_payload("w", CONFIG, replace(none, content=made[:2]))
    assert "content_tools" not in before and payload_hash(before) != payload_hash(after)
    lines = [line.text for line in request_lines("mcp_tools", after, {"approved": before})]
    assert "tools of Choir for its resources and prompts" in lines and "+resources.read" in lines


def test_lists_of_any_shape_are_bounded() -> None:
    long: JsonObject = {"uri": "x:1", "description": "d" * 5_000, "icons": [1], "size": "7"}
    listed: JsonObject = {"resources": [long, 7], "resourceTemplates": [{"name": "n"}] * 1_200}
    output = content_output("w", "resources/list", {}, listed).output
    assert output["resources"] == [{"uri": "x:1", "description": f"{'d' * 1_000}…"}]
    assert output["templates_left_out"] == 200
    with pytest.raises(ToolFailed, match="limit"):
        content_output("w", "prompts/list", {}, {"prompts": [{"name": "x" * 2_100_000}]})


def test_a_change_is_shown_as_a_difference_and_long_ones_are_not_compared_line_by_line() -> None:
    long = "\n".join(map(str, range(1_000)))
    old: JsonObject = {"server": "w", "command": ["s"], "tools": [tool(), tool("gone")]}
    new: JsonObject = {"server": "w", "command": ["s"], "tools": [tool(description=long)]}
    lines = request_lines("mcp_tools", new, {"approved": old})
    texts = [line.text for line in lines]
    assert "-description: The weather." in texts and "tool gone (no longer offered)" in texts
    assert sum(line.mark is LineKind.NEW for line in lines) > 1_000
    assert all("\n" not in text for text in texts)


def test_results_are_bounded_and_a_servers_error_is_a_failure() -> None:
    text: JsonObject = {"type": "text", "text": "42"}
    assert tool_output("w", {"content": [text]}).output == {"server": "w", "text": "42"}
    both: JsonObject = {"content": [text], "structuredContent": {"result": 42}}
    assert tool_output("w", both).output == {"server": "w", "result": {"result": 42}}
    picture: JsonObject = {"type": "image", "mimeType": "image/png", "data": "AAAA"}
    assert "not shown" in str(tool_output("w", {"content": [picture, 7]}).output["text"])
    with pytest.raises(ToolFailed, match="no such city"):
        tool_output("w", {"isError": True, "content": [{"type": "text", "text": "no such city"}]})
    with pytest.raises(ToolFailed, match="limit"):
        tool_output("w", {"content": [{"type": "text", "text": "x" * 2_100_000}]})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"command": ("s",), "url": "http://x/mcp"},
        {"command": ("s",), "secrets": {"K": "key"}, "workspace": True},
        {"command": ("s",), "environment": {"LD_PRELOAD": "/x"}},
        {"command": ("s",), "environment": {"http_proxy": "x"}},
        {"command": ("s",), "secret": "key"},
        {"url": "http://user:pass@x/mcp"},
        {"url": "http://x/mcp", "hosts": ("y",)},
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        McpServerConfig.model_validate({"agents": ("main",), **fields})


def test_an_agent_gets_only_its_own_servers() -> None:
    other = CONFIG.model_copy(update={"agents": ("other", "main")})
    servers = McpConfig(servers={"a": CONFIG, "b": other, "c": CONFIG})
    assert [*servers.servers_of("other")] == ["b"]


def test_a_tool_cannot_take_the_name_of_another() -> None:
    def made(name: str) -> McpTool:
        definition = read_tools("a", CONFIG, [tool(name)]).tools[0]
        return McpTool(tool_manifest("a", CONFIG, definition, "0" * 64), definition, NoServer())

    own = made("today")
    registry = ToolRegistry([own])
    # another source offers the name that an own tool has already
    assert registry.replace_tools("mcp.a.t", [made("tomorrow")]) == ()
    assert registry.find("mcp.a.today") is None
    assert registry.replace_tools("mcp.b.", [own]) == ("mcp.a.today",)
    assert registry.names("edge") == ["mcp_a_tomorrow"]
    assert registry.faults("mcp.a.tomorrow", {"city": 1})
    assert "withdrawn" in registry.faults("mcp.a.today", {})[0]


@pytest.mark.parametrize(
    ("kind", "fails"), [("application/json", True), ("text/event-stream", False)]
)
async def test_a_document_over_http_has_a_limit_that_streams_do_not_need(
    kind: str, fails: bool
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield b"x" * 1_001

    def respond(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers={"content-type": kind}, content=body())

    end = asyncio.get_running_loop().create_future()
    transport = LimitedTransport(httpx2.MockTransport(respond), 1_000, end)
    async with httpx2.AsyncClient(transport=transport) as client:
        if fails:
            with pytest.raises(httpx2.ReadError, match="too large"):
                await client.get("http://x/")
        else:
            assert len((await client.get("http://x/")).content) == 1_001
