"""End what a command left behind after its process group was killed.

Called by `child` when a command has ended. As the subreaper (see `boot.harden`) we become the parent of every
orphan a command leaves, however it detached itself; whoever is our child and none of our own is a stray.
"""

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

# each round finds the children of those that the round before killed
ROUNDS = 20
TASKS = Path("/proc/self/task")


def kill_group(group: int) -> None:
    """Kill a process group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def end_strays(known: Collection[int]) -> int:
    """Kill and reap our children other than `known`; return how many there were."""
    ended = 0
    for _ in range(ROUNDS):
        strays = _children() - set(known)
        if not strays:
            break
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                # a killed process ends at once; waiting for it lets its own children come to us
                os.waitpid(pid, 0)
                ended += 1
    return ended


def _children() -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in TASKS.iterdir():
            with contextlib.suppress(OSError):
                found.update(int(pid) for pid in (task / "children").read_text().split())
    return found
