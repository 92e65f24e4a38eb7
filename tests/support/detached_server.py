"""Detached processes that run a server for many tests, until the test process ends.

Used by `shared_postgres` and `shared_nats`. They must not be child processes of the tests: these run the
agent's tools in their own process, and the tools kill every unknown child.
"""

import contextlib
import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37


@contextlib.contextmanager
def detached_server(module: str, first_line: str = "") -> Iterator[str]:
    """Run `module`, which calls `detach`; yield the address that it prints.

    It gets `first_line` on its standard input, which then stays open until the block ends, or this process.
    """
    with no_subreaper():
        keeper = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
        )
        keeper.wait(timeout=60)
    assert keeper.stdin and keeper.stdout
    try:
        keeper.stdin.write(f"{first_line}\n".encode())
        keeper.stdin.flush()
        address = keeper.stdout.readline().decode().strip()
        assert address, f"{module} started no server: it said why on standard error"
        yield address
    finally:
        keeper.stdin.close()
        keeper.stdout.read()  # returns when the keeper process has ended
        keeper.stdout.close()


def detach() -> None:
    """Continue as a process whose parent is init."""
    if os.fork():
        os._exit(0)
    os.setsid()


@contextlib.contextmanager
def no_subreaper() -> Iterator[None]:
    """Make orphan processes children of init in the block, even if a test made this process a subreaper."""
    libc = ctypes.CDLL(None)
    was = ctypes.c_int(0)
    if sys.platform == "linux":
        libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    try:
        yield
    finally:
        if was.value:
            libc.prctl(PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)
