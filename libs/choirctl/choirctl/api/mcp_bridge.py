"""Bridge from MCP over stdio to the MCP server of a Choir, for programs that only start commands.

With `oauth_login` the only module of choirctl that imports the SDK `mcp`, which takes a second.
"""

from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx2
import mcp_types as types
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from choir_client.failures import convert_transport_errors
from choir_common.http.client import make_client
from choir_common.http.response_parser import read_problem
from choir_common.target import Target

CALL_TIMEOUT_S = 3700.0
"""Longer than the longest `wait_seconds` of a tool."""
CHECK_TIMEOUT_S = 60.0

_Context = ServerRequestContext[Any, Any]


async def serve_stdio(place: Target, agent: str, token: str) -> None:
    """Answer MCP on standard input and output until the input ends.

    Raises Unavailable without a Choir, Unauthorized for a wrong token, NotFound for an agent that is not the
    client's.
    """
    # also over the Unix socket: the server checks the header Host
    url = f"{place.url or 'http://localhost'}/mcp/{quote(agent, safe='')}"
    headers = {"Authorization": f"Bearer {token}"}
    async with make_client(
        place.endpoint, headers=headers, timeout_s=CALL_TIMEOUT_S, ca_pem=place.ca_certificates()
    ) as http:
        with convert_transport_errors(place):
            await _check(http, url)
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, cache=None) as client:
            server = _Bridge(client).server
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())


async def _check(http: httpx2.AsyncClient, url: str) -> None:
    """Raise the reason for which the server would refuse all requests; the SDK would hide it."""
    answer = await http.get(url, timeout=CHECK_TIMEOUT_S)
    if answer.status_code != HTTPStatus.METHOD_NOT_ALLOWED:  # it answers POST alone
        raise read_problem(answer.status_code, answer.content)


class _Bridge:
    """A server whose requests are answered by a client of another server."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.server: Server[Any] = Server(
            "choir",
            title="Choir",
            instructions=client.instructions,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )

    async def _list_tools(
        self, _: _Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return await self._client.list_tools(cursor=params.cursor if params else None)

    async def _call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            await context.session.report_progress(progress, total=total, message=message)

        return await self._client.call_tool(params.name, params.arguments, progress_callback=report)
