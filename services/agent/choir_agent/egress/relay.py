"""Relay from a port on loopback to the egress proxy's Unix socket.

Programs know proxies by host and port. The relay passes bytes on unread: the proxy checks the credentials.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

from choir_agent.egress.event_loop import EgressEventLoop
from choir_agent.egress.link import EgressLink
from choir_agent.egress.route import LOOPBACK, EgressAddress
from choir_agent.egress.streams import ProxyConnections, Streams
from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.wire.rpc import AgentStartParameters

CONNECT_TIMEOUT_S = 5.0


def open_relay(boot: AgentStartParameters) -> "EgressRelay | None":
    """Return the relay to the agent's proxy, which listens already; None if the agent has no proxy.

    Raises StartupError if no port is free.
    """
    if boot.egress_address:
        link = EgressLink(boot)
        return relay_to(link.socket, boot.egress_key, link)
    return relay_to(boot.egress_socket, boot.egress_key) if boot.egress_socket else None


def relay_to(proxy_socket: str, key: str, link: EgressLink | None = None) -> "EgressRelay":
    """Return a relay to a proxy, which listens already. Raises StartupError if no port is free."""
    try:
        listener = socket.create_server((LOOPBACK, 0))
    except OSError as error:
        raise StartupError(
            _("No port on {loopback} can be opened: {error}.").format(
                loopback=LOOPBACK, error=error.strerror
            )
        ) from error
    port = int(listener.getsockname()[1])
    return EgressRelay(EgressAddress(proxy_socket, key, port), listener, link)


class EgressRelay:
    """Serves the listening socket of a route, and the link to a proxy on another machine."""

    def __init__(
        self, route: EgressAddress, listener: socket.socket, link: EgressLink | None = None
    ) -> None:
        self.route = route
        self._listener = listener
        self._link = link
        self._connections = ProxyConnections(self._connect)

    def make_event_loop(self) -> EgressEventLoop:
        """Return an event loop that connects through the proxy."""
        return EgressEventLoop(self.route)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve during the block."""
        server = await asyncio.start_server(self._connections.serve, sock=self._listener)
        try:
            async with self._link.serving() if self._link else contextlib.nullcontext():
                yield
        finally:
            server.close()
            await self._connections.close()

    async def _connect(self) -> Streams:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await asyncio.open_unix_connection(self.route.socket)
