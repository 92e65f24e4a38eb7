"""The route `/mcp/AGENT`: checks of a request, and the SDK's server that answers it.

There are no sessions: each request has the token and the agent, so there is nothing to take over or to end.
"""

import asyncio
from typing import TYPE_CHECKING

import structlog
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from choir_common.errors import Unavailable
from choir_common.http.middleware import LargeBodyRoute
from choir_control.api.mcp.tools import AgentTools, ClientCall
from choir_control.api.openai.authentication import ClientAuthentication, ConversationResolver
from choir_control.api.operator.web_origins import WebOrigins
from choir_control.api_clients.service import MCP_PATH, ApiClientService
from choir_control.configuration.api_clients import ApiClient

if TYPE_CHECKING:
    from choir_control.api.mcp.sdk_server import SdkServer

MAX_BODY = 1_000_000
"""Bytes of a message; a text has at most 100,000 characters."""
BODIES = LargeBodyRoute("POST", rf"{MCP_PATH}/[^/]+", MAX_BODY, 20.0)
READY_S = 60.0
RESTART_S = 1.0

log = structlog.get_logger("choir.mcp")


class McpEndpoint:
    """The endpoint."""

    def __init__(
        self,
        *,
        tools: AgentTools,
        clients: ApiClientService,
        conversations: ConversationResolver,
        origins: WebOrigins,
    ) -> None:
        self._tools = tools
        self._authentication = ClientAuthentication(clients)
        self._conversations = conversations
        self._origins = origins
        self._is_needed = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._server: SdkServer | None = None

    def add_to(self, app: FastAPI) -> None:
        """Add the route to an application. OpenAPI cannot describe it."""
        app.router.routes.append(Route(f"{MCP_PATH}/{{agent_id}}", self))

    async def run(self) -> None:
        """Run the SDK's server from the first request until cancelled."""
        await self._is_needed.wait()
        while True:
            try:
                await self._serve()
            except Exception:  # outermost loop: the SDK's failure must not end choird
                log.exception("MCP server failed")
            await asyncio.sleep(RESTART_S)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request.

        Raises Forbidden for a wrong Host or Origin, Unauthorized, RateLimited, Unavailable, and NotFound for
        an agent or a conversation that is not the client's.
        """
        request = Request(scope, receive)
        # first: a page of another site must not even learn whether a token is right
        self._origins.check(request.headers, changing=False)
        await self._authentication(request)
        client: ApiClient = request.state.client
        agent_id = str(scope["path_params"]["agent_id"])
        dm = self._conversations.find(client, agent_id, request)
        if request.method != "POST":  # GET would wait for messages that never come
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        request.state.call = ClientCall(client, agent_id, dm)
        server = await self._find_server()
        await server.handle(scope, receive, send)

    async def _find_server(self) -> "SdkServer":
        self._is_needed.set()
        try:
            async with asyncio.timeout(READY_S):
                await self._is_ready.wait()
        except TimeoutError:
            raise Unavailable("The MCP server is starting; try again.") from None
        if self._server is None:
            raise Unavailable("The MCP server is stopping; try again.")
        return self._server

    async def _serve(self) -> None:
        server = await asyncio.to_thread(_make_server, self._tools)
        async with server.run():
            self._server = server
            self._is_ready.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._is_ready.clear()
                self._server = None


def _make_server(tools: AgentTools) -> "SdkServer":
    """Return a server; in a thread, because the first call imports the SDK, which takes a second."""
    # Late: the SDK takes 34 MB, and most installations have no such client.
    from choir_control.api.mcp.sdk_server import SdkServer  # noqa: PLC0415

    return SdkServer(tools, MAX_BODY)
