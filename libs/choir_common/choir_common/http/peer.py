"""Tell an app which process is at the other end of a Unix socket.

`listen.serve` speaks HTTP with this protocol; an app finds the peer in `request.client`: host
`UNIX_PEER`, and its pid as port (0 when the peer lives in another pid namespace).
"""

import asyncio
import socket
import struct

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

UNIX_PEER = "unix"
_UCRED = struct.Struct("3i")  # pid, uid, gid


class PeerProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which looks at the credentials of Unix peers when they connect."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family == socket.AF_UNIX:
            self.client = (UNIX_PEER, _peer_pid(sock))


def _peer_pid(sock: socket.socket) -> int:
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    pid, _, _ = _UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return int(pid)
