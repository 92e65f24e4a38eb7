"""Reservation of free ports across concurrent test processes.

Used by every test that must know a port before its server listens. Binding to port 0 and closing the socket
again is a race: the kernel may assign the port to another process, or to an outgoing connection.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

HOST = "127.0.0.1"
# below the ephemeral ports of Linux (32768 and up), above the usual ports of services
FIRST, LAST = 20_000, 32_000
TRIES = 1_000


def free_port() -> int:
    """Return a free loopback port; no other test process gets it until this process ends."""
    places = Path(tempfile.gettempdir()) / f"choir-test-ports-{os.geteuid()}"
    places.mkdir(mode=0o700, exist_ok=True)
    for _ in range(TRIES):
        port = random.randrange(FIRST, LAST)
        if _reserve(places / str(port)) and _is_free(port):
            return port
    raise AssertionError(f"no port from {FIRST} to {LAST} is free: see {places}")


def _reserve(path: Path) -> bool:
    """Lock the port's file; return False if it is locked. The kernel releases it when the process ends."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    # never closed on purpose: the lock lasts until this process ends
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
