"""Kill processes that a command left behind after its process group was killed.

The agent is a subreaper (see `harden_process`), so it becomes the parent of every orphan process, even of
detached ones. A child process that the agent did not start itself is an orphan of a command. Orphans that
have ended are reaped while commands still run, so that they do not stay zombies.
"""

import contextlib
import os
import signal
from collections.abc import Collection
from pathlib import Path

# Each pass finds the children of the processes that the previous pass killed.
MAX_PASSES = 20
PROC = Path("/proc")
TASKS = PROC / "self/task"
CALL_ID = "CHOIR_CALL_ID"


def kill_process_group(group: int) -> None:
    """Kill a process group, if it still exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def kill_orphans(own_pids: Collection[int], running_calls: Collection[str]) -> int:
    """Kill and reap child processes other than `own_pids`; return how many there were.

    While other calls run, only processes that certainly do not belong to them are killed. A process
    whose call is unknown (the kernel shows no environment during an exec) is left for a later call
    of this function, at the latest when the last call ends.
    """
    killed_count = 0
    for _ in range(MAX_PASSES):
        strays = {
            pid
            for pid in _children() - set(own_pids)
            if not running_calls or _has_no_running_call(pid, own_pids, running_calls)
        }
        if not strays:
            break
        for pid in strays:
            with contextlib.suppress(ProcessLookupError, PermissionError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                # A killed process ends at once; reaping it makes its own children ours.
                os.waitpid(pid, 0)
                killed_count += 1
    return killed_count


def reap_zombies(own_pids: Collection[int]) -> int:
    """Reap child processes other than `known` that have ended by themselves; return how many."""
    reaped = 0
    for pid in _children() - set(own_pids):
        with contextlib.suppress(ChildProcessError):
            reaped += os.waitpid(pid, os.WNOHANG)[0] == pid
    return reaped


def _has_no_running_call(
    pid: int, sessions: Collection[int], running_calls: Collection[str]
) -> bool:
    with contextlib.suppress(OSError):
        if os.getsid(pid) in sessions:
            return False
        prefix = f"{CALL_ID}=".encode()
        for entry in (PROC / str(pid) / "environ").read_bytes().split(b"\x00"):
            if entry.startswith(prefix):
                return entry.removeprefix(prefix).decode("utf-8", "replace") not in running_calls
    return False


def _children() -> set[int]:
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for task in TASKS.iterdir():
            with contextlib.suppress(OSError):
                pids.update(int(pid) for pid in (task / "children").read_text().split())
    return pids
