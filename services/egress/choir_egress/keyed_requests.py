"""Requests of one agent to servers whose keys the proxy adds.

The agent sends plain HTTP over its socket; the proxy speaks TLS with the server. Connections to servers are
reused, so that a model call needs no handshake of its own. Redirects are never followed.
"""

import asyncio
from collections.abc import Iterable, Sequence

import h11
import httpcore2

from choir_common.egress.forwarding import Streams
from choir_common.egress.http_head import REASON_FIELD, HttpHead, ProxyTarget
from choir_common.errors import Forbidden, InvalidRequest, Unavailable
from choir_egress.client_connection import ClientConnection
from choir_egress.proxied_keys import KeyedServer, replace_placeholder
from choir_egress.response_mask import ResponseMask
from choir_egress.server_pool import ServerPool
from choir_egress.traffic import ProxyConnection

CONNECT_TIMEOUT_S = 10.0
_HOP_FIELDS = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
_DROPPED_FROM_RESPONSE = _HOP_FIELDS | {"content-length", "proxy-authenticate", REASON_FIELD}


class KeyedRequests:
    """Sends the requests of one agent with keys, and passes the responses on as they arrive."""

    def __init__(self, pool: ServerPool, idle_s: float) -> None:
        self._pool = pool
        self._idle_s = idle_s

    async def close(self) -> None:
        """Close the connections to servers."""
        await self._pool.close()

    async def forward(
        self,
        head: HttpHead,
        target: ProxyTarget,
        *,
        server: KeyedServer,
        account: ProxyConnection,
        client: Streams,
    ) -> None:
        """Serve one request.

        Raises Forbidden, InvalidRequest or Unavailable as long as nothing was answered, and OSError or
        TimeoutError if a peer disconnects.
        """
        connection = ClientConnection(head, target.path, client=client, idle_s=self._idle_s)
        answer = asyncio.create_task(self._answer(connection, target.path, server, account))
        disconnect = asyncio.create_task(connection.wait_until_left())
        try:
            # A client that cancels a model call disconnects, and the call must end.
            await asyncio.wait({answer, disconnect}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                answer.result()
        finally:
            for task in (answer, disconnect):
                task.cancel()
            await asyncio.gather(answer, disconnect, return_exceptions=True)

    async def _answer(
        self, connection: ClientConnection, path: str, server: KeyedServer, account: ProxyConnection
    ) -> None:
        request = await connection.read_request()
        fields = _decoded(request.headers)
        _check_host(fields, server)
        keyed = replace_placeholder(_forwarded(fields), server)
        body = connection.read_body(account.up)
        is_empty = not {"content-length", "transfer-encoding"} & {name for name, _ in fields}
        if is_empty:
            async for _ in body:  # ends at once, and notes that the request is complete
                pass
        upstream = httpcore2.Request(
            request.method,
            httpcore2.URL(scheme=server.scheme, host=server.host, port=server.port, target=path),
            headers=[*keyed.fields, ("Host", server.authority)],
            content=None if is_empty else body,
            extensions={"timeout": self._timeouts()},
        )
        response = await self._send(upstream, server)
        try:
            await _pass_on(response, connection, server, account, ResponseMask(keyed.secrets))
        finally:
            await response.aclose()

    async def _send(self, request: httpcore2.Request, server: KeyedServer) -> httpcore2.Response:
        """Send a request and return the response without its body; raises Unavailable."""
        pool = await self._pool.open()
        try:
            return await pool.handle_async_request(request)
        except httpcore2.LocalProtocolError as error:
            raise InvalidRequest(f"The request cannot be sent: {error}.") from error
        except _TRANSFER_ERRORS as error:
            reason = str(error) or type(error).__name__
            raise Unavailable(f"{server.authority} cannot be reached: {reason}.") from error

    def _timeouts(self) -> dict[str, float]:
        return {"connect": CONNECT_TIMEOUT_S, "read": self._idle_s, "write": self._idle_s}


_TRANSFER_ERRORS = (
    httpcore2.NetworkError,
    httpcore2.RemoteProtocolError,
    httpcore2.TimeoutException,
)


async def _pass_on(
    response: httpcore2.Response,
    connection: ClientConnection,
    server: KeyedServer,
    account: ProxyConnection,
    mask: ResponseMask,
) -> None:
    """Send a response to the client while it arrives; raises OSError if the server breaks off."""
    fields = _decoded(response.headers)
    encoding = next((value for name, value in fields if name == "content-encoding"), "identity")
    if encoding.lower() != "identity":
        raise Unavailable(
            f"{server.authority} sent a compressed response, in which a key could not be masked."
        )
    headers = [
        (
            name,
            _own_location(mask.mask_text(value), server)
            if name == "location"
            else mask.mask_text(value),
        )
        for name, value in fields
        if name not in _DROPPED_FROM_RESPONSE
    ]
    await connection.send(h11.Response(status_code=response.status, headers=headers))
    try:
        async for data in response.aiter_stream():
            account.down.consume(len(data))
            if masked := mask.add(data):
                await connection.send(h11.Data(data=masked))
    except _TRANSFER_ERRORS as error:
        # The client must not take the response for a complete one.
        raise ConnectionResetError(f"{server.authority} broke off its response") from error
    if rest := mask.finish():
        await connection.send(h11.Data(data=rest))
    await connection.send(h11.EndOfMessage())


def _decoded(fields: Iterable[tuple[bytes, bytes]]) -> Sequence[tuple[str, str]]:
    return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in fields]


def _forwarded(fields: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the fields for the server; a response must be readable, so none is compressed."""
    dropped = (_HOP_FIELDS - {"transfer-encoding"}) | {"host", "accept-encoding", "expect"}
    forwarded = [(name, value) for name, value in fields if name not in dropped]
    return [*forwarded, ("accept-encoding", "identity")]


def _check_host(fields: Sequence[tuple[str, str]], server: KeyedServer) -> None:
    """Raise Forbidden if the Host header names another server than the request's address."""
    for name, value in fields:
        if name == "host" and value.lower() not in (server.authority, server.full_authority):
            raise Forbidden(f"The Host header names {value}, the address {server.full_authority}.")


def _own_location(location: str, server: KeyedServer) -> str:
    """Return a redirect within the server as an address that leads through the proxy again."""
    origin = f"https://{server.authority}/"
    if server.scheme != "https" or not location.startswith(origin):
        return location
    return f"http://{server.full_authority}/{location.removeprefix(origin)}"
