"""The protocol, by the SDK's low-level server. The only module of control that imports the SDK.

It speaks both eras of streamable HTTP: `initialize` (up to 2025-11-25), and single exchanges (2026-07-28).
In both, the end of the connection cancels a call.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Scope, Send

from choir_common.errors import ChoirError
from choir_control import VERSION
from choir_control.api.mcp.arguments import SERVER_TOOLS, ServerTool
from choir_control.api.mcp.results import ToolAnswer
from choir_control.api.mcp.tools import AgentTools, ClientCall, list_tools

_Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True, slots=True)
class _SessionProgress:
    """Sends `notifications/progress` if the call has a progress token."""

    session: ServerSession

    async def report(self, seconds: float, text: str) -> None:
        """Report the seconds since the call, which only grow, and what is new."""
        await self.session.report_progress(seconds, message=text)


class SdkServer:
    """The SDK's server; the HTTP request of a message says which agent and client it is for."""

    def __init__(self, tools: AgentTools, max_body: int) -> None:
        self._tools = tools
        server: Server[Any] = Server(
            "choir",
            version=VERSION,
            title="Choir",
            instructions="Tools to work with one personal agent, which runs in Choir.",
            get_tool_input_schema=_input_schema,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
        )
        server.middleware.clear()  # its spans repeat those of choird's requests
        self._manager = StreamableHTTPSessionManager(
            server, stateless=True, max_request_body_size=max_body
        )

    def run(self) -> AbstractAsyncContextManager[None]:
        """Return the context manager in which requests are answered; its end cancels the open ones."""
        return self._manager.run()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request. `state.call` of its scope is on whose behalf it is."""
        await self._manager.handle_request(scope, receive, send)

    async def _list_tools(
        self, context: _Context, _: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        tools = [_definition(tool) for tool in list_tools(_call_of(context).client)]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        call = _call_of(context)
        if params.name not in SERVER_TOOLS:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:64]!r}.")
        try:
            answer = await self._tools.execute(params.name, params.arguments or {}, call)
        except ChoirError as error:
            # as a result, so that the model of the client reads it
            text = f"{error.code}: {error.message}"
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
        return _result(answer)


def _call_of(context: _Context) -> ClientCall:
    """Return on whose behalf the HTTP request of a message is."""
    request = context.request
    assert request is not None, "only requests over HTTP arrive here"
    call: ClientCall = request.state.call
    return ClientCall(call.client, call.agent_id, call.dm, _SessionProgress(context.session))


def _input_schema(name: str) -> dict[str, Any] | None:
    tool = SERVER_TOOLS.get(name)
    return None if tool is None else tool.input_schema()


def _definition(tool: ServerTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema(),
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only,
            destructive_hint=None if tool.read_only else True,
            open_world_hint=not tool.read_only,
        ),
    )


def _result(answer: ToolAnswer) -> types.CallToolResult:
    content: list[Any] = [types.TextContent(text=text) for text in answer.texts]
    return types.CallToolResult(content=content, structured_content=answer.data)
