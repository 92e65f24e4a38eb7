"""Cleanup of the processes that an agent leaves behind, in any process session.

Called by `ProcessRuntime` in a thread: every function blocks. An agent's process is a subreaper, so that all
its tools stay its descendants while it lives. When it ends they become children of control, which is a
subreaper, too.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable
from pathlib import Path

from choir_control.runtimes.process import process_table
from choir_control.runtimes.process.process_table import Entry
from choir_control.runtimes.process.records import Record

PR_SET_CHILD_SUBREAPER = 36
GONE_WITHIN_S = 5.0
LOOK_AGAIN_S = 0.005


def adopt_orphans() -> None:
    """Make orphaned descendants of this process its own children."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def kill_adopted(agents: Collection[int]) -> int:
    """Kill and reap the processes inherited from agents that ended; return how many.

    `agents` are the pids of running agents. An inherited process is recognized because it gave up privileges,
    as all processes of agents do, and left control's session, which it can never enter again.
    """
    own, session = os.getpid(), os.getsid(0)
    killed: set[int] = set()
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline:
        table = process_table.everybody()
        adopted = [
            entry
            for entry in table
            if entry.parent == own
            and entry.session != session
            and entry.pid not in agents
            and process_table.gave_up_privileges(entry.pid)
        ]
        if not adopted:
            break
        below = process_table.descendants({entry.pid for entry in adopted}, table)
        for entry in [*adopted, *below]:
            kill_exactly(entry)
            killed.add(entry.pid)
        for entry in adopted:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)
        time.sleep(LOOK_AGAIN_S)
    return len(killed)


def kill_recorded(record: Record) -> bool:
    """Kill the agent that an earlier control process recorded, and its session; False if none was left."""
    if record.boot != process_table.boot_id():
        return False
    leader = process_table.find(record.pid)
    if leader is not None and leader.started != record.started:
        return False  # the pid was reused, so the agent's session is over, too
    table = process_table.everybody()
    members = [
        entry
        for entry in table
        if entry.session == record.pid and process_table.gave_up_privileges(entry.pid)
    ]
    left = {*members, *process_table.descendants({entry.pid for entry in members}, table)}
    for entry in left:
        kill_exactly(entry)
    await_end(left)
    return bool(left)


def kill_unrecorded(agents: Path, living: Collection[int]) -> int:
    """Kill processes of agents of an earlier control process, with any parent; return how many.

    `agents` is the directory of the agents' private files. It is in the environment of every process they
    start, and mounted in their file tree, which they cannot leave. `living` are the pids of the agents that
    run now.
    """
    killed: set[int] = set()
    deadline = time.monotonic() + GONE_WITHIN_S
    while time.monotonic() < deadline:
        table = process_table.everybody()
        own = {*living, *(entry.pid for entry in process_table.descendants(set(living), table))}
        left = [
            entry
            for entry in table
            if entry.pid not in own
            and not entry.zombie
            and process_table.gave_up_privileges(entry.pid)
            and process_table.uses_directory(entry.pid, agents)
        ]
        if not left:
            break
        for entry in left:
            kill_exactly(entry)
            killed.add(entry.pid)
        await_end(left)
    return len(killed)


def kill_exactly(entry: Entry) -> None:
    """Kill this process, but never a later one with the same pid."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform != "linux":
            os.kill(entry.pid, signal.SIGKILL)
            return
        handle = os.pidfd_open(entry.pid)
        try:
            now = process_table.find(entry.pid)
            if now is not None and now.started == entry.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def await_end(entries: Iterable[Entry]) -> None:
    """Wait until the processes have ended; a zombie counts as ended."""
    deadline = time.monotonic() + GONE_WITHIN_S
    waiting = list(entries)
    while waiting and time.monotonic() < deadline:
        time.sleep(LOOK_AGAIN_S)
        waiting = [entry for entry in waiting if lives(entry)]


def lives(entry: Entry) -> bool:
    """Return whether this very process still runs."""
    now = process_table.find(entry.pid)
    return now is not None and now.started == entry.started and not now.zombie
