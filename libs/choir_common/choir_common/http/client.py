"""HTTP client factory for Unix sockets and TCP, streaming of a file, and detection of a server that hangs.

Such a server accepts requests but responds to none. choirctl detects it for choird and control for the
gateway, before a request's own deadline.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any

import httpx2

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.http.response_parser import read_problem
from choir_common.i18n import _

UNIX_SCHEME = "unix://"
TLS_SCHEME = "https://"
MAX_CONNECTIONS = 500
"""Connections of one client. Long-lived streams must leave some of them for short requests."""
CHUNK_BYTES = 64 * 1024
READ_TIMEOUT_S = 20.0
"""Read timeout: a response that sends nothing for this long is abandoned."""
PROBE_AFTER_S = 6.0
PROBE_TIMEOUT_S = 2.0


def make_client(
    endpoint: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    ca_pem: str | None = None,
    unix_transport: Callable[[str], httpx2.AsyncBaseTransport] | None = None,
) -> httpx2.AsyncClient:
    """Return a client for `unix:///path/to.sock` or `http(s)://host:port`; the caller closes it.

    Streams (SSE) must set their own read timeout. Proxy settings of the environment are ignored. `ca_pem`
    contains the only trusted certificates; without it the system's are trusted. `unix_transport` creates
    the transport for a socket path where httpx2's own is too slow.
    """
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=100)
    timeout = httpx2.Timeout(timeout_s, connect=5.0)
    if endpoint.startswith(UNIX_SCHEME):
        path = endpoint.removeprefix(UNIX_SCHEME)
        # No TLS on a Unix socket: loading the certificate bundle would take 30 ms and 3 MB.
        transport = (
            unix_transport(path)
            if unix_transport
            else httpx2.AsyncHTTPTransport(uds=path, limits=limits, trust_env=False, verify=False)
        )
        return httpx2.AsyncClient(
            base_url="http://choir", transport=transport, headers=headers, timeout=timeout
        )
    return httpx2.AsyncClient(
        base_url=endpoint,
        headers=headers,
        timeout=timeout,
        limits=limits,
        verify=_verification(endpoint, ca_pem),
        trust_env=False,
    )


def make_sync_client(
    endpoint: str, *, headers: Mapping[str, str] | None = None, ca_pem: str | None = None
) -> httpx2.Client:
    """Return a client as `make_client` does, for programs without an event loop; the caller closes it."""
    timeout = httpx2.Timeout(30.0, connect=5.0)
    if endpoint.startswith(UNIX_SCHEME):
        path = endpoint.removeprefix(UNIX_SCHEME)
        transport = httpx2.HTTPTransport(uds=path, trust_env=False, verify=False)
        return httpx2.Client(
            base_url="http://choir", transport=transport, headers=headers, timeout=timeout
        )
    return httpx2.Client(
        base_url=endpoint,
        headers=headers,
        timeout=timeout,
        verify=_verification(endpoint, ca_pem),
        trust_env=False,
    )


def _verification(endpoint: str, ca_pem: str | None) -> ssl.SSLContext | bool:
    """Return how to verify a server; plain HTTP needs no certificates, and redirects are not followed."""
    return ssl_context_for(ca_pem) if ca_pem else endpoint.startswith(TLS_SCHEME)


def ssl_context_for(ca_pem: str) -> ssl.SSLContext:
    """Return an SSL context that trusts only these certificates: authorities, or the server's own.

    Raises InvalidRequest if the text contains no valid certificate.
    """
    try:
        context = ssl.create_default_context(cadata=ca_pem)
    except ssl.SSLError as error:
        raise InvalidRequest(
            _("The trusted certificates cannot be parsed: {reason}.").format(reason=error.reason)
        ) from error
    # Allows pinning a server's own certificate, which no authority signed; the default since Python 3.13.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


@contextlib.asynccontextmanager
async def stream_download(
    client: httpx2.AsyncClient, path: str, query: Mapping[str, str] | None = None
) -> AsyncIterator[AsyncIterator[bytes]]:
    """Yield the body of `GET path` in chunks.

    Raises the error in the response, or Unavailable if the service is down or the connection breaks.
    """
    try:
        async with client.stream(
            "GET", path, params=query, timeout=httpx2.Timeout(READ_TIMEOUT_S, connect=5.0)
        ) as answer:
            if answer.is_error:
                body = await answer.aread()
                raise read_problem(answer.status_code, body, answer.headers.get("retry-after"))
            yield answer.aiter_bytes(CHUNK_BYTES)
    except httpx2.HTTPError as error:
        raise Unavailable(
            _("The download of {path} was interrupted: {kind}.").format(
                path=path, kind=type(error).__name__
            )
        ) from error


async def await_unless_hung(
    client: httpx2.AsyncClient,
    sending: Coroutine[Any, Any, httpx2.Response],
    patience_s: float = PROBE_AFTER_S,
) -> httpx2.Response:
    """Return the response to a request; give up a slow one if `/livez` does not respond either.

    Raises httpx2.ReadTimeout in that case, and any error of `sending`.
    """
    task = asyncio.ensure_future(sending)
    try:
        while True:
            await asyncio.wait((task,), timeout=patience_s)
            hangs = not task.done() and not await _lives(client)
            if task.done():
                return task.result()
            if hangs:
                raise httpx2.ReadTimeout(
                    "The server responds neither to this request nor to /livez."
                )
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def _lives(client: httpx2.AsyncClient) -> bool:
    timeout = httpx2.Timeout(PROBE_TIMEOUT_S)
    try:
        answer = await client.get("/livez", timeout=timeout)
    except httpx2.HTTPError:
        return False
    return answer.status_code == HTTPStatus.OK
