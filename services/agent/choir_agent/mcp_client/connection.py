"""A connection with an MCP server, over the SDK's session. One of four modules that import the SDK."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import mcp_types as types
from mcp.client._transport import ReadStream, WriteStream
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from choir_agent.mcp_client.address_requests import AddressTracker
from choir_agent.mcp_client.call_progress import CallProgress, longest_s
from choir_agent.mcp_client.content_tools import ContentKind
from choir_agent.mcp_client.definitions import ToolDefinition
from choir_agent.mcp_client.faults import AddressRequired, McpServerError
from choir_agent.mcp_client.hosted_session import HostedSession, host_callbacks
from choir_agent.mcp_client.http_transport import LimitedTransport
from choir_agent.mcp_client.server_host import ServerHost
from choir_agent.mcp_client.server_requests import (
    CONNECTION_ERRORS,
    ServerRequests,
    wait_for_reason,
)
from choir_agent.mcp_client.streams import MAX_MESSAGE_BYTES, open_program
from choir_agent.tools.program_runner import Program, ProgramRunner
from choir_agent.tools.tool import ToolFailed
from choir_common.egress.key_placeholders import KeyProxy, is_placeholder
from choir_common.http.key_proxy_transport import KeyProxyTransport
from choir_common.i18n import _
from choir_common.wire.model import JsonObject

CLIENT = types.Implementation(name="choir", version="1")
_CHANGES = (
    types.ToolListChangedNotification,
    types.ResourceListChangedNotification,
    types.PromptListChangedNotification,
)


class Connection:
    """An initialized connection."""

    def __init__(self, session: ClientSession, end: asyncio.Future[str]) -> None:
        self._session, self._requests = session, ServerRequests(session, end)
        self.end = end
        """The reason, when the server has ended, or, if it is reached by URL, has forgotten the session."""
        self.lists_changed = asyncio.Event()
        """Set when the server says that its tools, resources or prompts are others now."""
        self.addresses = AddressTracker()

    @property
    def kinds(self) -> frozenset[ContentKind]:
        """The kinds of content that the server announces."""
        announced = self._session.server_capabilities or types.ServerCapabilities()
        kinds: tuple[ContentKind, ...] = ("resources", "prompts")
        return frozenset(kind for kind in kinds if getattr(announced, kind) is not None)

    async def list_tools(self) -> list[JsonObject]:
        """Return the definitions of all tools as the server sends them.

        Raises McpServerError if it does not answer as it should.
        """
        return await self._requests.list_tools(self._session.server_capabilities)

    async def has_content(self, kind: ContentKind) -> bool:
        """Return whether the server lists any; also true if it answers with an error."""
        return await self._requests.has_content(kind)

    async def call(
        self,
        tool: ToolDefinition,
        arguments: JsonObject,
        timeout_s: float,
        progress: CallProgress,
    ) -> JsonObject:
        """Call a tool and return the result; raises ToolFailed, and AddressRequired.

        A call that is cancelled or times out is also cancelled at the server.
        """
        try:
            async with progress.limit(timeout_s):
                return await self._requests.call(tool, arguments, progress)
        except TimeoutError as error:
            after = (
                _(" of its last progress, or {timeout_s:g} s in all").format(
                    timeout_s=longest_s(timeout_s)
                )
                if progress.text
                else ""
            )
            message = _(
                "The server did not answer within {timeout_s:g} s{after}; the call was cancelled."
            ).format(timeout_s=timeout_s, after=after)
            raise ToolFailed("timeout", message) from error
        except AddressRequired:
            raise
        except McpServerError as error:
            raise ToolFailed(
                "server_error", _("The MCP server failed: {message}").format(message=error.message)
            ) from error

    async def on_message(self, message: IncomingMessage) -> None:
        """Note changes of lists, and addresses at which a person is done; others have no effect."""
        if isinstance(message, _CHANGES):
            self.lists_changed.set()
        if isinstance(message, types.ElicitCompleteNotification):
            self.addresses.note_done(message.params.elicitation_id)


@asynccontextmanager
async def connect_program(
    runner: ProgramRunner,
    program: Program,
    start_timeout_s: float,
    *,
    host: ServerHost,
    root: Path | None,
) -> AsyncIterator[Connection]:
    """Start a server and yield the connection; raises McpServerError.

    `root` is the folder that the server is told to work in.
    """
    async with (
        open_program(runner, program) as (incoming, outgoing, end),
        _connect(incoming, outgoing, end, start_timeout_s, host, root) as connection,
    ):
        yield connection


@asynccontextmanager
async def connect_url(
    url: str,
    secret: str | None,
    key_proxy: KeyProxy | None,
    start_timeout_s: float,
    *,
    host: ServerHost,
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
            _connect(*streams, end, start_timeout_s, host) as connection,
        ):
            yield connection
    except ExceptionGroup as group:
        # The SDK's tasks raise what went wrong with a request, inside of groups.
        fault, _rest = group.split(httpx2.HTTPError)
        if fault is None:
            raise
        raise McpServerError(
            _("{url} cannot be reached: {fault}").format(url=url, fault=_first_leaf(fault))[:500]
        ) from group


@asynccontextmanager
async def _connect(
    incoming: ReadStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
    end: asyncio.Future[str],
    timeout_s: float,
    host: ServerHost,
    root: Path | None = None,
) -> AsyncIterator[Connection]:
    connection: Connection | None = None

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        roots = [types.Root(uri=root.as_uri(), name="workspace")] if root else []
        return types.ListRootsResult(roots=roots)

    async def on_message(message: IncomingMessage) -> None:
        if connection is not None:
            await connection.on_message(message)

    hosted = HostedSession(
        incoming,
        outgoing,
        client_info=CLIENT,
        message_handler=on_message,
        list_roots_callback=list_roots if root else None,
        **host_callbacks(host),
    )
    hosted.abilities = host.abilities
    async with hosted as session:
        connection = Connection(session, end)
        try:
            async with asyncio.timeout(timeout_s):
                await session.initialize()
        except TimeoutError as error:
            raise McpServerError(
                _("it did not answer within {timeout_s:g} s after its start").format(
                    timeout_s=timeout_s
                )
            ) from error
        except (MCPError, ValidationError, RuntimeError, *CONNECTION_ERRORS) as error:
            # The reason why a program ended says more than the connection that it closed.
            reason = await wait_for_reason(end)
            raise McpServerError(
                reason or _("it cannot be initialized: {error}").format(error=str(error))[:500]
            ) from error
        yield connection


def _first_leaf(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
