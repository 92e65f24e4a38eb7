"""Event loop whose TCP connections go through the egress proxy.

An agent has no network of its own, and its HTTP, SMTP and IMAP clients come from different libraries. All
of them connect with the event loop, so this is the one place that knows of the proxy. A tunnel is opened for
plain HTTP, too: connections are reused as without a proxy.
"""

import asyncio
import socket
from typing import Any

import structlog

from choir_agent.egress.route import EgressAddress
from choir_common.egress.credentials import ProxyIdentity, basic_authorization

log = structlog.get_logger("choir.agent.egress")

CONNECT_TIMEOUT_S = 30.0
"""Longer than the proxy needs to resolve a name and to try its addresses."""
SUCCESS = b"HTTP/1.1 200 Connection established\r\n\r\n"
MAX_REFUSAL_BYTES = 4_096
TLS_OPTIONS = frozenset({"ssl", "server_hostname", "ssl_handshake_timeout", "ssl_shutdown_timeout"})


class EgressEventLoop(asyncio.SelectorEventLoop):
    """Event loop that connects through the proxy of `route`."""

    def __init__(self, route: EgressAddress) -> None:
        super().__init__()
        self._route = route
        self._authorization = basic_authorization(route.key, ProxyIdentity())

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> list[Any]:
        """Return the name itself as the address: the proxy resolves it."""
        name = host.decode() if isinstance(host, bytes) else host
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (name, port))]

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any
    ) -> Any:
        """Connect as the base class does, through a tunnel; raises OSError if the proxy refuses."""
        if host is None:
            return await super().create_connection(protocol_factory, **options)
        tunnel = await self.open_tunnel(host, port)
        tls = {name: value for name, value in options.items() if name in TLS_OPTIONS}
        if tls.get("ssl") and tls.get("server_hostname") is None:
            tls["server_hostname"] = host
        try:
            return await super().create_connection(protocol_factory, sock=tunnel, **tls)
        except BaseException:
            tunnel.close()
            raise

    async def open_tunnel(self, host: str, port: int) -> socket.socket:
        """Return a non-blocking socket that is connected with `host`.

        Raises OSError if the proxy is not available or refuses.
        """
        tunnel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        tunnel.setblocking(False)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self.sock_connect(tunnel, self._route.socket)
                await self._request(tunnel, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        except BaseException:
            tunnel.close()
            raise
        return tunnel

    async def _request(self, tunnel: socket.socket, target: str) -> None:
        head = f"CONNECT {target} HTTP/1.1\r\nProxy-Authorization: {self._authorization}\r\n\r\n"
        await self.sock_sendall(tunnel, head.encode())
        received = b""
        # Not a byte more: what follows comes from the server.
        while len(received) < len(SUCCESS):
            part = await self.sock_recv(tunnel, len(SUCCESS) - len(received))
            if not part:
                break
            received += part
        if received == SUCCESS:
            return
        while part := await self.sock_recv(tunnel, MAX_REFUSAL_BYTES):
            received += part
        reason = received.partition(b"\r\n\r\n")[2].decode(errors="replace")
        log.warning("the egress proxy refused a connection", target=target, reason=reason)
        raise ConnectionRefusedError(reason or "the egress proxy closed the connection")


def connect_from_thread(
    loop: asyncio.AbstractEventLoop, host: str, port: int, timeout_s: float | None
) -> socket.socket:
    """Return a blocking connected socket for a library that runs in a thread; raises OSError."""
    if not isinstance(loop, EgressEventLoop):
        return socket.create_connection((host, port), timeout_s)
    opening = asyncio.run_coroutine_threadsafe(loop.open_tunnel(host, port), loop)
    tunnel = opening.result()
    tunnel.settimeout(timeout_s)
    return tunnel
