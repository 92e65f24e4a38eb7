"""A connection with an MCP server, over the SDK's session. One of two modules that import the SDK.

Results are not checked against the server's own schemas, as the SDK's `call_tool` does: Python may evaluate
the regular expressions of a hostile schema endlessly.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import mcp_types as types
from mcp.client._transport import ReadStream, WriteStream
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from choir_agent.mcp_client.call_progress import CallProgress, longest_s
from choir_agent.mcp_client.faults import McpServerError
from choir_agent.mcp_client.http_transport import LimitedTransport
from choir_agent.mcp_client.streams import MAX_MESSAGE_BYTES, open_program
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.tool import ToolFailed
from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from choir_common.wire.model import JsonObject
from choir_common.wire.validation_messages import error_messages

MAX_PAGES = 50
CLIENT = types.Implementation(name="choir", version="1")
_CONNECTION_ERRORS = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream)


class Connection:
    """An initialized connection."""

    def __init__(self, session: ClientSession, end: asyncio.Future[str]) -> None:
        self._session = session
        self.end = end
        """The reason, when the server has ended, or, if it is reached by URL, has forgotten the session."""
        self.tools_changed = asyncio.Event()

    async def list_tools(self) -> list[JsonObject]:
        """Return the definitions of all tools as the server sends them.

        Raises McpServerError if it does not answer as it should.
        """
        tools: list[JsonObject] = []
        cursor, size = None, 0
        for _ in range(MAX_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor else None
            request = types.ListToolsRequest(params=params)
            page = await self._request(request, types.ListToolsResult)
            listed = page.get("tools")
            tools += (
                [tool for tool in listed if isinstance(tool, dict)]
                if isinstance(listed, list)
                else []
            )
            size += len(str(page))
            if size > MAX_MESSAGE_BYTES:
                raise McpServerError(
                    f"the list of its tools takes more than {MAX_MESSAGE_BYTES} bytes"
                )
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return tools
        raise McpServerError(f"the list of its tools has more than {MAX_PAGES} pages")

    async def call(
        self, name: str, arguments: JsonObject, timeout_s: float, progress: CallProgress
    ) -> JsonObject:
        """Call a tool and return the result; raises ToolFailed.

        A call that is cancelled or times out is also cancelled at the server.
        """
        request = types.CallToolRequest(
            params=types.CallToolRequestParams(name=name, arguments=arguments)
        )
        try:
            async with progress.limit(timeout_s):
                return await self._request(request, types.CallToolResult, progress)
        except TimeoutError as error:
            after = (
                f" of its last progress, or {longest_s(timeout_s):g} s in all"
                if progress.text
                else ""
            )
            message = (
                f"The server did not answer within {timeout_s:g} s{after}; the call was cancelled."
            )
            raise ToolFailed("timeout", message) from error
        except McpServerError as error:
            raise ToolFailed("server_error", f"The MCP server failed: {error.message}") from error

    async def _request(
        self,
        request: types.ClientRequest,
        result_type: type[types.Result],
        progress: CallProgress | None = None,
    ) -> JsonObject:
        on_progress = progress.record if progress is not None else None
        try:
            result = await self._session.send_request(
                request, result_type, progress_callback=on_progress
            )
            return result.model_dump(mode="json", by_alias=True, exclude_none=True)
        except MCPError as error:
            is_end = error.code == types.CONNECTION_CLOSED
            reason = await _wait_for_reason(self.end) if is_end else ""
            raise McpServerError(reason or str(error.message)[:500]) from error
        except ValidationError as error:
            reason = error_messages(error, "the answer")[0]
            raise McpServerError(f"its answer is not valid: {reason}") from error
        except _CONNECTION_ERRORS as error:
            raise McpServerError("the connection has ended") from error

    async def on_message(self, message: IncomingMessage) -> None:
        """Note a change of the tools; other notifications have no effect."""
        if isinstance(message, types.ToolListChangedNotification):
            self.tools_changed.set()


@asynccontextmanager
async def connect_program(
    runner: ProgramRunner, program: Program, start_timeout_s: float, root: Path | None
) -> AsyncIterator[Connection]:
    """Start a server and yield the connection; raises McpServerError.

    `root` is the folder that the server is told to work in.
    """
    async with (
        open_program(runner, program) as (incoming, outgoing, end),
        _connect(incoming, outgoing, end, start_timeout_s, root) as connection,
    ):
        yield connection


@asynccontextmanager
async def connect_url(
    url: str, secret: str | None, key_proxy: KeyProxy | None, start_timeout_s: float
) -> AsyncIterator[Connection]:
    """Connect to a server that speaks streamable HTTP; raises McpServerError.

    The agent's event loop opens the connections through the egress proxy, which also replaces a placeholder
    by the secret.
    """
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    proxied = key_proxy is not None and secret is not None and is_placeholder(secret)
    end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    transport: httpx2.AsyncBaseTransport
    if proxied and key_proxy is not None:
        transport = KeyProxyTransport(key_proxy)
    else:
        # Loading the certificates takes a moment.
        tls = await asyncio.to_thread(httpx2.create_ssl_context)
        transport = httpx2.AsyncHTTPTransport(verify=tls, trust_env=False)
    client = httpx2.AsyncClient(
        headers={**headers, "Accept-Encoding": "identity"},
        transport=LimitedTransport(transport, MAX_MESSAGE_BYTES, end),
        trust_env=False,
        # The deadlines of requests are the session's; a stream may be silent for long.
        timeout=httpx2.Timeout(30.0, read=None),
    )
    try:
        async with (
            client,
            streamable_http_client(
                url, http_client=client, max_sse_event_size=MAX_MESSAGE_BYTES
            ) as streams,
            _connect(*streams, end, start_timeout_s) as connection,
        ):
            yield connection
    except ExceptionGroup as group:
        # The SDK's tasks raise what went wrong with a request, inside of groups.
        fault, _ = group.split(httpx2.HTTPError)
        if fault is None:
            raise
        raise McpServerError(f"{url} cannot be reached: {_first_leaf(fault)}"[:500]) from group


@asynccontextmanager
async def _connect(
    incoming: ReadStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
    end: asyncio.Future[str],
    timeout_s: float,
    root: Path | None = None,
) -> AsyncIterator[Connection]:
    connection: Connection | None = None

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        roots = [types.Root(uri=root.as_uri(), name="workspace")] if root else []
        return types.ListRootsResult(roots=roots)

    async def on_message(message: IncomingMessage) -> None:
        if connection is not None:
            await connection.on_message(message)

    async with ClientSession(
        incoming,
        outgoing,
        client_info=CLIENT,
        message_handler=on_message,
        list_roots_callback=list_roots if root else None,
    ) as session:
        connection = Connection(session, end)
        try:
            async with asyncio.timeout(timeout_s):
                await session.initialize()
        except TimeoutError as error:
            raise McpServerError(
                f"it did not answer within {timeout_s:g} s after its start"
            ) from error
        except (MCPError, ValidationError, RuntimeError, *_CONNECTION_ERRORS) as error:
            # The reason why a program ended says more than the connection that it closed.
            reason = await _wait_for_reason(end)
            raise McpServerError(reason or f"it cannot be initialized: {error}"[:500]) from error
        yield connection


def _first_leaf(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


async def _wait_for_reason(end: asyncio.Future[str]) -> str:
    done, _ = await asyncio.wait((end,), timeout=2.0)
    return end.result() if done else ""
