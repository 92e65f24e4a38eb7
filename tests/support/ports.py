"""Ports that only this process will listen on, however many test processes run beside it.

Called by every test that must know a port before its server listens. Asking the kernel for a free port and
letting go of it again is a race: the kernel may give it to the next who asks, and to any connection.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

HOST = "127.0.0.1"
# below what Linux takes for connections and for port 0 (32768 and up), above what services have by custom
FIRST, LAST = 20_000, 32_000
TRIES = 1_000


def free_port() -> int:
    """Return a loopback port on which nobody listens; no other test process gets it while we live."""
    places = Path(tempfile.gettempdir()) / f"choir-test-ports-{os.geteuid()}"
    places.mkdir(mode=0o700, exist_ok=True)
    for _ in range(TRIES):
        port = random.randrange(FIRST, LAST)
        if _reserve(places / str(port)) and _nobody_listens(port):
            return port
    raise AssertionError(f"no port from {FIRST} to {LAST} is free: see {places}")


def _reserve(path: Path) -> bool:
    """Lock the port's file, unless it is locked; the kernel lets go of it when we end."""
    held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return False
    # kept open on purpose, until this process ends
    return True


def _nobody_listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
