"""Read Chromium's processes from /proc, lower their priority, kill them. Linux only, like the service.

Called by watchdog.py in a thread: each call reads about a dozen small files.
"""

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_MEMORY = ("RssAnon:", "RssShmem:", "VmSwap:")


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """One of Chromium's processes at one moment."""

    pid: int
    started: int
    """Start time in clock ticks since boot; unique together with `pid`."""
    renderer: bool
    memory: int
    """Private and shared anonymous memory in bytes, including swap; no program text, no files."""
    cpu_s: float
    """Processor seconds since it started."""


def chromium_processes(root: int) -> Sequence[ProcessSample]:
    """Return Chromium's processes among the descendants of the process `root`."""
    samples = []
    for pid in _children(root):
        with contextlib.suppress(OSError, ValueError, IndexError):  # the process may end in between
            command = (PROC / str(pid) / "cmdline").read_bytes()
            if b"--type=" in command or b"--remote-debugging-pipe" in command:
                samples.append(_process(pid, b"--type=renderer" in command))
            # A renderer has no children, but many threads that would have to be read.
            if b"--type=renderer" not in command:
                samples.extend(chromium_processes(pid))
    return samples


def set_idle_priority(pid: int) -> None:
    """Give a process the idle scheduling class, including its threads and those that it will start.

    Niceness does not work: Chromium sets it itself, and 64 threads of the lowest weight together
    still weigh as much as one normal thread. SCHED_IDLE yields immediately.
    """
    with contextlib.suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            os.sched_setscheduler(int(thread.name), os.SCHED_IDLE, os.sched_param(0))


def kill_process(process: ProcessSample) -> None:
    """Kill a process, unless its pid was reused."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        if _process(process.pid, process.renderer).started == process.started:
            os.kill(process.pid, signal.SIGKILL)


def process_exists(pid: int) -> bool:
    """Return whether a process exists; one that has ended does until its parent has noticed."""
    return (PROC / str(pid)).exists()


def children_with_argument(pid: int, argument: bytes) -> Iterator[int]:
    """Yield a process's live children with `argument` in their command line."""
    for child in _children(pid):
        with contextlib.suppress(OSError):
            if argument in (PROC / str(child) / "cmdline").read_bytes():
                yield child


def kill_tree(pid: int) -> None:
    """Kill a process and all its descendants."""
    for process_id in (*_descendants(pid), pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in (PROC / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (thread / "children").read_text().split())


def _process(pid: int, renderer: bool) -> ProcessSample:
    stat = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    status = (PROC / str(pid) / "status").read_text().splitlines()
    sizes: Mapping[str, int] = {
        line.split()[0]: int(line.split()[1]) for line in status if line.startswith(_MEMORY)
    }
    return ProcessSample(
        pid=pid,
        started=int(stat[19]),
        renderer=renderer,
        # /proc reports kB, that is units of 1,024 bytes.
        memory=sum(sizes.values()) * 1024,
        cpu_s=(int(stat[11]) + int(stat[12])) / TICKS_PER_S,
    )
