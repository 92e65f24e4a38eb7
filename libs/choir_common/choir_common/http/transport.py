"""Make HTTP clients for an endpoint: the one place that tells a Unix socket from TCP (spec 12.2)."""

import ssl
from collections.abc import Callable, Mapping

import httpx2

UNIX = "unix://"


def make_client(
    endpoint: str,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
    ca_file: str | None = None,
    unix_transport: Callable[[str], httpx2.AsyncBaseTransport] | None = None,
) -> httpx2.AsyncClient:
    """Return a client for `unix:///path/to.sock` or `http(s)://host:port`; close it after use.

    Streams (SSE) must pass their own read timeout. Proxies of the environment are never used.
    `unix_transport` makes the transport for a socket path where httpx2's own is too slow.
    """
    limits = httpx2.Limits(max_connections=200, max_keepalive_connections=100)
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
    verify = ssl.create_default_context(cafile=ca_file) if ca_file else True
    return httpx2.AsyncClient(
        base_url=endpoint,
        headers=headers,
        timeout=timeout,
        limits=limits,
        verify=verify,
        trust_env=False,
    )
