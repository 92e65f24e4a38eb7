"""The TCP endpoint of control, and the address under which agents reach it.

The only code in control that depends on the chosen transport; all other code receives an address.
"""

import asyncio
import datetime
import socket

from starlette.types import ASGIApp

from choir_common.addresses import client_url
from choir_common.http.listen import bind_tcp, serve
from choir_control.agents.runtimes.port import ControlAddress
from choir_control.api.transports.tls import ServerTls, load_server_tls
from choir_control.settings import ControlSettings


class TcpListener:
    """The TCP listener of control."""

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self._tls: ServerTls | None = None
        self._socket: socket.socket | None = None
        self._port = settings.http_port

    def bind(self) -> None:
        """Bind the port and prepare its certificate; raises StartupError."""
        # The port first: a second choird of this home must fail before it changes the files of the
        # first.
        settings = self._settings
        self._socket = bind_tcp(settings.http_host, settings.http_port, "CHOIR_HTTP_PORT")
        self._port = self._socket.getsockname()[1]
        self._tls = load_server_tls(settings, datetime.datetime.now(datetime.UTC))

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()

    async def serve(self, app: ASGIApp, closed: asyncio.Event) -> None:
        """Serve requests until `closed` is set, and close the socket."""
        sockets = [] if self._socket is None else [self._socket]
        await serve(app, sockets, closed, self._tls.context if self._tls else None)

    async def serve_copy(self, app: ASGIApp, closed: asyncio.Event) -> None:
        """Serve requests until `closed` is set, and keep the socket for `serve`."""
        sockets = [] if self._socket is None else [self._socket.dup()]
        await serve(app, sockets, closed, self._tls.context if self._tls else None)

    @property
    def address(self) -> str:
        """Return the address of this endpoint as seen from this machine."""
        return client_url(self._settings.http_host, self._port, tls=self._tls is not None)

    def agent_endpoint(self) -> ControlAddress | None:
        """Return how agents reach control over HTTP, or None if they use their own Unix sockets."""
        if self._settings.control_plane == "uds":
            return None
        return ControlAddress(self._settings.control_endpoint or self.address, self.trust())

    def trust(self) -> str:
        """Return the certificates (PEM) that clients trust; empty for plain HTTP."""
        return self._tls.trusted_pem if self._tls else ""
