"""Reader of the kernel's process table: parent, session and start time of each process.

Without /proc (on systems other than Linux) the table is empty.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
# Field positions in /proc/<pid>/stat, counted after the command's closing parenthesis.
STATE, PARENT, SESSION, STARTED = 0, 1, 3, 19


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """A process; `started` (clock ticks since boot) distinguishes it from a later one with the same pid."""

    pid: int
    parent: int
    session: int
    started: int
    zombie: bool


def find_process(pid: int) -> ProcessEntry | None:
    """Return the process with this pid, or None."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The command may contain spaces and parentheses.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessEntry(
        pid=pid,
        parent=int(fields[PARENT]),
        session=int(fields[SESSION]),
        started=int(fields[STARTED]),
        zombie=fields[STATE] == "Z",
    )


def list_processes() -> list[ProcessEntry]:
    """Return all processes."""
    try:
        names = os.listdir(PROC)  # noqa: PTH208 half the time of iterdir
    except OSError:
        return []
    entries = (find_process(int(name)) for name in names if name.isdigit())
    return [entry for entry in entries if entry is not None]


def descendants(of: set[int], table: list[ProcessEntry]) -> Iterator[ProcessEntry]:
    """Yield all descendants of the processes `of`."""
    children: dict[int, list[ProcessEntry]] = {}
    for entry in table:
        children.setdefault(entry.parent, []).append(entry)
    waiting = list(of)
    while waiting:
        for child in children.get(waiting.pop(), []):
            yield child
            waiting.append(child.pid)


def boot_id() -> str:
    """Return the id of this boot of the machine; pids and ticks start again with the next."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def gave_up_privileges(pid: int) -> bool:
    """Return whether a process can never gain privileges, which is true of all processes of agents."""
    try:
        return "NoNewPrivs:\t1" in (PROC / str(pid) / "status").read_text()
    except OSError:
        return False


def uses_directory(pid: int, directory: Path) -> bool:
    """Return whether a process has its TMPDIR below `directory`, or a mount there."""
    process_dir = PROC / str(pid)
    below = os.fsencode(directory) + b"/"
    try:
        environment = (process_dir / "environ").read_bytes().split(b"\0")
        # The fifth field is the mount point; spaces and similar characters are octal escapes.
        mounts = [
            line.split(b" ")[4] for line in (process_dir / "mountinfo").read_bytes().splitlines()
        ]
    except (OSError, IndexError):
        return False
    return any(entry.startswith(b"TMPDIR=" + below) for entry in environment) or any(
        mount.decode("unicode_escape").encode("latin-1").startswith(below) for mount in mounts
    )
