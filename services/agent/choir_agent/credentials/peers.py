"""Tell whether a process is ours: it, its parent, or one further up. Called by `door`."""

import os
import socket
import struct
import sys
from pathlib import Path

_CREDENTIALS = struct.Struct("3i")
DEEPEST = 64


def pid_of_peer(connection: socket.socket) -> int:
    """Return the pid at the other end of a Unix socket, 0 where the system does not say."""
    if sys.platform != "linux":
        return 0
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid: int = _CREDENTIALS.unpack(raw)[0]
    return pid


def descends(pid: int, ancestor: int) -> bool:
    """Tell whether `pid` lives and stands below `ancestor`; where there is no /proc, nobody does."""
    for _ in range(DEEPEST):
        if pid <= 1:
            return False
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        # the command may hold spaces and parentheses
        pid = int(text[text.rindex(")") + 2 :].split()[1])
        if pid == ancestor:
            return True
    return False


def is_ours(connection: socket.socket) -> bool:
    """Tell whether the peer was started by this process, directly or not."""
    return sys.platform != "linux" or descends(pid_of_peer(connection), os.getpid())
