"""Check that the peer of a Unix socket is a descendant of this process. Called by `door`."""

import os
import socket
import struct
import sys
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
DEEPEST = 64


def pid_of_peer(connection: socket.socket) -> int:
    """Return the pid of the peer of a Unix socket, or 0 if the system does not provide it."""
    if sys.platform != "linux":
        return 0
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(raw)[0]
    return pid


def descends(pid: int, ancestor: int) -> bool:
    """Return whether `pid` is alive and descends from `ancestor`; always False without /proc."""
    for _ in range(DEEPEST):
        if pid <= 1:
            return False
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        # The command name may contain spaces and parentheses.
        pid = int(text[text.rindex(")") + 2 :].split()[1])
        if pid == ancestor:
            return True
    return False


def is_ours(connection: socket.socket) -> bool:
    """Return whether this process started the peer, directly or through others; True if not on Linux."""
    return sys.platform != "linux" or descends(pid_of_peer(connection), os.getpid())
