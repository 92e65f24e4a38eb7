"""Open the TCP door, and tell agents how to reach control (spec 12.1, 12.2).

Made by `app`; `sessions` asks it at each start of an agent. The one place in control that knows which
transport a deployment chose; everything else is given an address.
"""

import asyncio
import datetime
import socket

from starlette.types import ASGIApp

from choir_common.http.listen import bind_tcp, serve
from choir_common.http.tcp_address import client_address
from choir_control.runtimes.port import HttpWay
from choir_control.settings import ControlSettings
from choir_control.transports.tls import ServerTls, open_tls


class TcpDoor:
    """The TCP side of control."""

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self._tls: ServerTls | None = None
        self._socket: socket.socket | None = None
        self._port = settings.http_port

    def bind(self) -> None:
        """Bind the port and prepare its certificate; raises StartupError."""
        # the port first: a second choird of this home must not touch the files of the first
        settings = self._settings
        self._socket = bind_tcp(settings.http_host, settings.http_port, "CHOIR_HTTP_PORT")
        self._port = self._socket.getsockname()[1]
        self._tls = open_tls(settings, datetime.datetime.now(datetime.UTC))

    def close(self) -> None:
        """Let go of the port."""
        if self._socket is not None:
            self._socket.close()

    async def serve(self, app: ASGIApp, closed: asyncio.Event) -> None:
        """Answer at the port until `closed` is set."""
        sockets = [] if self._socket is None else [self._socket]
        await serve(app, sockets, closed, self._tls.context if self._tls else None)

    @property
    def address(self) -> str:
        """Return the door's address as this machine knows it."""
        return client_address(self._settings.http_host, self._port, tls=self._tls is not None)

    def way_of_agents(self) -> HttpWay | None:
        """Return how an agent reaches control over HTTP; None: through its own Unix socket."""
        if self._settings.control_plane == "uds":
            return None
        return HttpWay(self._settings.control_endpoint or self.address, self.trust())

    def trust(self) -> str:
        """Return the certificates (PEM) by which clients know this door; none where it speaks plainly."""
        return self._tls.trust if self._tls else ""
