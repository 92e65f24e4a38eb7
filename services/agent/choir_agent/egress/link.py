"""Link from a Unix socket of the agent to the egress proxy on another machine, over TLS.

An agent in a pod has no socket of the proxy. The link gives it one, in the abstract namespace, which no
program can replace as it could a file. So the agent's clients and the relay are the same everywhere.
"""

import asyncio
import contextlib
import secrets
import socket
import ssl
from collections.abc import AsyncIterator

import structlog

from choir_agent.egress.streams import ProxyConnections, Streams
from choir_common.egress.greeting import greeting
from choir_common.errors import StartupError
from choir_common.http.client import ssl_context_for
from choir_common.i18n import _
from choir_common.wire.rpc import AgentStartParameters

log = structlog.get_logger("choir.agent.egress")

CONNECT_TIMEOUT_S = 10.0
BACKLOG = 256


class EgressLink:
    """Serves a Unix socket; each of its connections goes on to the proxy."""

    def __init__(self, boot: AgentStartParameters) -> None:
        """Listen; raises StartupError or InvalidRequest if the address or the certificate is none."""
        host, _separator, port = boot.egress_address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._greeting = greeting(boot.agent_id, boot.egress_key)
        self._tls: ssl.SSLContext = ssl_context_for(boot.egress_certificate)
        self.socket = f"\0choir-egress-{secrets.token_hex(8)}"
        """Address of the Unix socket."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(self.socket)
        except OSError as error:
            raise StartupError(
                _("No socket for the egress proxy: {error}.").format(error=error.strerror)
            ) from error
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._connections = ProxyConnections(self._connect)

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve during the block."""
        server = await asyncio.start_unix_server(self._connections.serve, sock=self._listener)
        try:
            yield
        finally:
            server.close()
            await self._connections.close()

    async def _connect(self) -> Streams:
        """Connect and say whose connection it is; raises OSError and TimeoutError."""
        try:
            streams = await self._open_tls()
        except (OSError, TimeoutError) as error:
            log.warning("the egress proxy does not answer", proxy=self._host, error=repr(error))
            raise
        streams[1].write(self._greeting)
        return streams

    async def _open_tls(self) -> Streams:
        """Connect without the loop's own way, which leads through the proxy; raises OSError."""
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await asyncio.to_thread(
                socket.create_connection, (self._host, self._port), CONNECT_TIMEOUT_S
            )
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                return await asyncio.open_connection(
                    sock=connection, ssl=self._tls, server_hostname=self._host
                )
            except BaseException:
                connection.close()
                raise
