"""Reused connections of one agent to the servers whose keys the proxy adds."""

import asyncio
import ssl
from collections.abc import Iterable

import httpcore2

from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import MAX_DIALS, Dialer, Resolver
from choir_common.errors import ChoirError

IDLE_CONNECTIONS = 8
IDLE_CONNECTION_S = 60.0

SocketOptions = Iterable[
    tuple[int, int, int] | tuple[int, int, bytes | bytearray] | tuple[int, int, None, int]
]


class TlsSettings:
    """TLS settings for servers, which are verified with the system's certificates or SSL_CERT_FILE."""

    def __init__(self) -> None:
        self._context: ssl.SSLContext | None = None
        self._loading = asyncio.Lock()

    async def load(self) -> ssl.SSLContext:
        """Return the context; loads the certificates at the first call."""
        async with self._loading:
            if self._context is None:
                self._context = await asyncio.to_thread(httpcore2.default_ssl_context)
        return self._context


class _CheckedBackend(httpcore2.AnyIOBackend):
    """Network of the connection pool: dials only the addresses that were checked."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: SocketOptions | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        # Only servers of the configuration come here, which may be at any address.
        name = f"[{host}]" if ":" in host else host
        dialer = Dialer(parse_allowlist(f"{name}:{port}", "config.json"), self._resolver)
        try:
            addresses = await dialer.permitted_addresses(host, port)
        except ChoirError as error:
            raise httpcore2.ConnectError(error.message) from error
        for address in addresses[:MAX_DIALS]:
            try:
                return await super().connect_tcp(
                    str(address), port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        raise httpcore2.ConnectError(f"{host}:{port} does not answer.")


class ServerPool:
    """Pool of connections to servers, with TLS where their address says so."""

    def __init__(self, resolver: Resolver, tls: TlsSettings) -> None:
        self._resolver = resolver
        self._tls = tls
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def open(self) -> httpcore2.AsyncConnectionPool:
        """Return the pool; most agents without keys never need one."""
        context = await self._tls.load()
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=context,
                max_connections=None,  # the agent's own connections are limited
                max_keepalive_connections=IDLE_CONNECTIONS,
                keepalive_expiry=IDLE_CONNECTION_S,
                network_backend=_CheckedBackend(self._resolver),
            )
        return self._pool

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.aclose()
