"""The official conformance suite and inspector of MCP against the MCP server of an agent."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.service.control.openai_world import OpenAIWorld, openai_world
from tests.service.control.world import World
from tests.support.mcp_conformance import INSTALL_WITHIN_S, RUN_WITHIN_S, install_packages
from tests.support.ports import free_port
from tests.support.preloaded_choirctl import CHOIRCTL

# The installation from npm alone may take minutes.
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(INSTALL_WITHIN_S + RUN_WITHIN_S)]
OFFERED = {"server-initialize", "ping", "tools-list", "dns-rebinding-protection"}
NO_METHOD, NO_TOOL, NO_SESSION = "Method not found", "There is no tool 'test_", "server-sse-"
"""Why a scenario is not for this server: what it does not announce, a tool of the suite's own example
server, or a session, which it has none of."""
NOT_OFFERED = {
    **dict.fromkeys(("resources-list", "resources-read-text", "resources-read-binary"), NO_METHOD),
    **dict.fromkeys(("resources-templates-read", "resources-subscribe"), NO_METHOD),
    **dict.fromkeys(("resources-unsubscribe", "prompts-list", "prompts-get-simple"), NO_METHOD),
    **dict.fromkeys(("prompts-get-with-args", "prompts-get-with-image"), NO_METHOD),
    **dict.fromkeys(("prompts-get-embedded-resource", "completion-complete"), NO_METHOD),
    **dict.fromkeys(("logging-set-level", "tools-call-with-logging"), NO_METHOD),
    **dict.fromkeys(("tools-call-simple-text", "tools-call-image", "tools-call-audio"), NO_TOOL),
    **dict.fromkeys(("tools-call-embedded-resource", "tools-call-mixed-content"), NO_TOOL),
    **dict.fromkeys(("tools-call-error", "tools-call-with-progress"), NO_TOOL),
    **dict.fromkeys(("tools-call-sampling", "tools-call-elicitation"), NO_TOOL),
    **dict.fromkeys(("elicitation-sep1034-defaults", "elicitation-sep1330-enums"), NO_TOOL),
    "json-schema-2020-12": "json_schema_2020_12_tool' not found",
    **dict.fromkeys(("server-sse-polling", "server-sse-multiple-streams"), NO_SESSION),
}
HOPS = {"host", "content-length", "transfer-encoding", "connection", "keep-alive"}


@contextlib.asynccontextmanager
async def with_token(api: OpenAIWorld, token: str) -> AsyncIterator[str]:
    """Yield an address that passes requests on to the agent with a token, which the suite cannot send."""
    port = free_port()
    own, upstream = f"localhost:{port}", httpx2.URL(api.world.tcp)

    async def forward(request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in HOPS}
        host = request.headers["host"]
        # a foreign host stays as it is: Choir has to refuse it
        headers["host"] = upstream.netloc.decode() if host == own else host
        if headers.get("origin") == f"http://{own}":
            headers["origin"] = str(api.world.tcp)
        headers["authorization"] = f"Bearer {token}"
        outgoing = http.build_request(
            request.method,
            f"{api.world.tcp}/mcp/main",
            headers=headers,
            content=await request.body(),
        )
        answer = await http.send(outgoing, stream=True)
        own_headers = {name: value for name, value in answer.headers.items() if name not in HOPS}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, own_headers)

    route = Route("/mcp", forward, methods=["GET", "POST", "DELETE"])
    config = uvicorn.Config(Starlette(routes=[route]), port=port, log_level="warning")
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
    async with httpx2.AsyncClient(trust_env=False, timeout=120) as http:
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.02)
        yield f"http://{own}/mcp"
        server.should_exit = True
        await serving


@pytest.fixture
async def api(stopped: World) -> AsyncIterator[OpenAIWorld]:
    async with openai_world(stopped) as made:
        yield made


async def test_the_suite_finds_no_fault_in_what_the_server_offers(
    api: OpenAIWorld, tmp_path: Path
) -> None:
    """The other scenarios are about features that it does not announce: docs/mcp-server.md."""
    suite = await install_packages(tmp_path)
    token = await api.add_client("suite", scopes=["chat", "jobs", "memory", "approvals"])
    async with with_token(api, token) as url:
        results = await suite.conformance("server", url=url, suite="all")
    assert {name for name in results if not results[name].faults} == OFFERED
    for name, why in NOT_OFFERED.items():
        assert why in " ".join(results[name].faults), (name, results[name].faults)
    assert results.keys() == OFFERED | NOT_OFFERED.keys(), "a scenario that nobody has looked at"


async def test_the_inspector_lists_and_calls_the_tools_through_the_bridge(
    api: OpenAIWorld, tmp_path: Path
) -> None:
    suite = await install_packages(tmp_path)
    api.agent.may_answer.set()
    token = await api.add_client("inspector", scopes=["chat", "memory"])

    async def inspect(method: str, *words: str) -> dict[str, Any]:
        server = (str(CHOIRCTL), "mcp", "serve", "main")
        code, output = await suite.run(
            *("mcp-inspector", "--cli", "-e", f"CHOIR_CLIENT_TOKEN={token}"),
            *("-e", f"CHOIR_HOME={api.world.home}", *server, "--method", method, *words),
        )
        assert code == 0, output
        answer: dict[str, Any] = json.loads(output[output.index("{") :])
        return answer

    listed = await inspect("tools/list")
    # only those of its scopes
    assert [it["name"] for it in listed["tools"]] == ["ask", "job_status", "memory_search"]
    call = ("--tool-name", "ask", "--tool-arg")
    answer = await inspect("tools/call", *call, "message=hello")
    assert [it["text"] for it in answer["content"]][1] == "echo: hello"
    assert not answer.get("isError")
    refused = await inspect("tools/call", *call, "message=/approve")
    assert refused["isError"] and "begins with a slash" in refused["content"][0]["text"]
