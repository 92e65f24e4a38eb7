"""Make HTTP clients for an endpoint: the one place that tells a Unix socket from TCP (spec 12.2)."""

import ssl
from collections.abc import Callable, Mapping

import httpx2

from choir_common.errors import BadInput

UNIX = "unix://"
MAX_CONNECTIONS = 500
"""Of one client. Whoever holds connections open for long must leave some of them for short requests."""


def make_client(
    endpoint: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    ca_pem: str | None = None,
    unix_transport: Callable[[str], httpx2.AsyncBaseTransport] | None = None,
) -> httpx2.AsyncClient:
    """Return a client for `unix:///path/to.sock` or `http(s)://host:port`; close it after use.

    Streams (SSE) must pass their own read timeout. Proxies of the environment are never used.
    `ca_pem` holds the only certificates that are trusted; without it those of the system are.
    `unix_transport` makes the transport for a socket path where httpx2's own is too slow.
    """
    limits = httpx2.Limits(max_connections=MAX_CONNECTIONS, max_keepalive_connections=100)
    timeout = httpx2.Timeout(timeout_s, connect=5.0)
    if endpoint.startswith(UNIX):
        path = endpoint.removeprefix(UNIX)
        # no TLS on a Unix socket: loading the certificate bundle would take 30 ms and 3 MB
        transport = (
            unix_transport(path)
            if unix_transport
            else httpx2.AsyncHTTPTransport(uds=path, limits=limits, trust_env=False, verify=False)
        )
        return httpx2.AsyncClient(
            base_url="http://choir", transport=transport, headers=headers, timeout=timeout
        )
    verify = trusting(ca_pem) if ca_pem else True
    return httpx2.AsyncClient(
        base_url=endpoint,
        headers=headers,
        timeout=timeout,
        limits=limits,
        verify=verify,
        trust_env=False,
    )


def trusting(ca_pem: str) -> ssl.SSLContext:
    """Return what verifies a server by these certificates alone: authorities, or its own.

    Raises BadInput when they are none.
    """
    try:
        context = ssl.create_default_context(cadata=ca_pem)
    except ssl.SSLError as error:
        raise BadInput(f"The certificates to trust cannot be read: {error.reason}.") from error
    # a server's own certificate may be pinned, which is no authority's; 3.13 has this by default
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
