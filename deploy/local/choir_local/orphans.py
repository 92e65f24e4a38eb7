"""Orphaned processes: adopt them, kill those left by an agent or control, and reap the rest.

Called by `Supervisor`. As a subreaper the supervisor becomes the parent of every process whose own parents
died, such as the tools of agents of a killed control. Without /proc (not Linux) nothing is adopted.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path

PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER = 36, 37
PROC = Path("/proc")
ENDED_WITHIN_S = 5.0
POLL_S = 0.01
# Set by choir_agent for each tool, and by choir_control for each git process.
MARKER_VARIABLES = (b"CHOIR_CALL_ID=", b"CHOIR_STARTED_BY=")


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process a subreaper during the block."""
    if sys.platform != "linux":
        yield
        return
    libc, before = ctypes.CDLL(None), ctypes.c_int(0)
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


class OrphanReaper:
    """The processes that this process adopted."""

    def __init__(self) -> None:
        self._zombies: set[int] = set()

    async def end_strays(self, launched: Collection[int]) -> int:
        """Kill and reap the processes that agents and control left running; return their number.

        `launched` are the processes that the caller started itself. Killing one makes its children ours, so
        this repeats until none is left or `ENDED_WITHIN_S` have passed.
        """
        killed: set[int] = set()
        deadline = time.monotonic() + ENDED_WITHIN_S
        while strays := {pid for pid in _adopted(launched) if _is_leftover(pid)}:
            for pid in strays:
                # Only this process can reap it, so the pid cannot belong to another process yet.
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
                _reap(pid)
            killed |= strays
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(POLL_S)
        return len(killed)

    def reap(self, launched: Collection[int]) -> None:
        """Reap the orphans that were zombies already at the previous call.

        The delay gives other code of this process the chance to wait for its own children.
        """
        zombies = {pid for pid in _adopted(launched) if _is_zombie(pid)}
        for pid in zombies & self._zombies:
            _reap(pid)
        self._zombies = zombies


def _adopted(launched: Collection[int]) -> set[int]:
    """Return the child processes in other sessions than this one, except `launched`.

    A service starts its own session, so its descendants can never be in this one.
    """
    session = os.getsid(0)
    return {pid for pid in _children() - set(launched) if _session(pid) not in (session, None)}


def _children() -> set[int]:
    children: set[int] = set()
    with contextlib.suppress(OSError):
        for task in (PROC / "self/task").iterdir():
            with contextlib.suppress(OSError):
                children.update(int(pid) for pid in (task / "children").read_text().split())
    return children


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def _is_leftover(pid: int) -> bool:
    """Return whether an agent or control started this process, directly or not."""
    if _no_new_privileges(str(pid)) and not _no_new_privileges("self"):
        return True  # every process of an agent gave up privileges permanently; services do not
    with contextlib.suppress(OSError):
        environment = (PROC / str(pid) / "environ").read_bytes().split(b"\0")
        return any(entry.startswith(MARKER_VARIABLES) for entry in environment)
    return False


def _no_new_privileges(pid: str) -> bool:
    with contextlib.suppress(OSError):
        return "NoNewPrivs:\t1" in (PROC / pid / "status").read_text()
    return False


def _is_zombie(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "\nState:\tZ" in (PROC / str(pid) / "status").read_text()
    return False


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
