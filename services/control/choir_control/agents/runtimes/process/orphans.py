"""Cleanup of the processes that an agent leaves behind, in any process session.

Every function blocks; call it in a thread. An agent's process is a subreaper, so that all its tools
stay its descendants while it lives. When it ends they become children of control, which is a
subreaper, too. Records in `$CHOIR_HOME/run/agents/<agent_id>.json`, without secrets, let the next
control process find agents that were left behind.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import structlog
from pydantic import ValidationError

from choir_common.wire.model import AgentName, WireModel
from choir_control.agents.runtimes.process import process_table
from choir_control.agents.runtimes.process.process_table import ProcessEntry

log = structlog.get_logger()
PR_SET_CHILD_SUBREAPER = 36
EXIT_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.005


class ProcessRecord(WireModel):
    """The process of one agent; `started` and `boot` distinguish it from a later one with its pid."""

    agent_id: AgentName
    session_id: str
    epoch: int
    pid: int
    started: int
    boot: str


class ProcessRecordStore:
    """Store of the records of agent processes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def write(self, agent_id: str, session_id: str, epoch: int, pid: int) -> None:
        """Record a process that was just started."""
        entry = process_table.find_process(pid)
        record = ProcessRecord(
            agent_id=agent_id,
            session_id=session_id,
            epoch=epoch,
            pid=pid,
            started=entry.started if entry else 0,
            boot=process_table.boot_id(),
        )
        path = self._path(agent_id)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(record.model_dump_json())
        partial.replace(path)

    def remove(self, agent_id: str) -> None:
        """Remove the record of an agent's process."""
        self._path(agent_id).unlink(missing_ok=True)

    def left(self) -> Iterator[tuple[Path, ProcessRecord | None]]:
        """Yield the path of every record with its content, or with None if it cannot be read."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                yield path, ProcessRecord.model_validate_json(path.read_bytes())
            except (OSError, ValidationError) as error:
                log.warning("unreadable agent record", path=str(path), error=str(error))
                yield path, None

    def _path(self, agent_id: str) -> Path:
        return self._directory / f"{agent_id}.json"


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
    killed_pids: set[int] = set()
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    while time.monotonic() < deadline:
        table = process_table.list_processes()
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
            kill_process(entry)
            killed_pids.add(entry.pid)
        for entry in adopted:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(entry.pid, os.WNOHANG)
        time.sleep(POLL_INTERVAL_S)
    return len(killed_pids)


def kill_recorded(record: ProcessRecord) -> bool:
    """Kill the agent that an earlier control process recorded, and its session; False if none was left."""
    if record.boot != process_table.boot_id():
        return False
    leader = process_table.find_process(record.pid)
    if leader is not None and leader.started != record.started:
        return False  # the pid was reused, so the agent's session is over, too
    table = process_table.list_processes()
    members = [
        entry
        for entry in table
        if entry.session == record.pid and process_table.gave_up_privileges(entry.pid)
    ]
    survivors = {*members, *process_table.descendants({entry.pid for entry in members}, table)}
    for entry in survivors:
        kill_process(entry)
    wait_for_exit(survivors)
    return bool(survivors)


def kill_unrecorded(agents: Path, live_pids: Collection[int]) -> int:
    """Kill processes of agents of an earlier control process, with any parent; return how many.

    `agents` is the directory of the agents' private files. It is in the environment of every process they
    start, and mounted in their file tree, which they cannot leave. `live_pids` are the pids of the agents
    that run now.
    """
    killed_pids: set[int] = set()
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    while time.monotonic() < deadline:
        table = process_table.list_processes()
        own = {
            *live_pids,
            *(entry.pid for entry in process_table.descendants(set(live_pids), table)),
        }
        survivors = [
            entry
            for entry in table
            if entry.pid not in own
            and not entry.zombie
            and process_table.gave_up_privileges(entry.pid)
            and process_table.uses_directory(entry.pid, agents)
        ]
        if not survivors:
            break
        for entry in survivors:
            kill_process(entry)
            killed_pids.add(entry.pid)
        wait_for_exit(survivors)
    return len(killed_pids)


def kill_process(entry: ProcessEntry) -> None:
    """Kill this process, but never a later one with the same pid."""
    with contextlib.suppress(ProcessLookupError):
        if sys.platform != "linux":
            os.kill(entry.pid, signal.SIGKILL)
            return
        handle = os.pidfd_open(entry.pid)
        try:
            now = process_table.find_process(entry.pid)
            if now is not None and now.started == entry.started:
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def wait_for_exit(entries: Iterable[ProcessEntry]) -> None:
    """Wait until the processes have ended; a zombie counts as ended."""
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    waiting = list(entries)
    while waiting and time.monotonic() < deadline:
        time.sleep(POLL_INTERVAL_S)
        waiting = [entry for entry in waiting if is_running(entry)]


def is_running(entry: ProcessEntry) -> bool:
    """Return whether this very process still runs."""
    now = process_table.find_process(entry.pid)
    return now is not None and now.started == entry.started and not now.zombie
