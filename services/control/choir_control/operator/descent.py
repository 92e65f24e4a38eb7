"""Check whether a process descends from this one: an agent, or a tool of an agent.

Called by `admission`. The process runtime makes control a subreaper (`adopt_orphans`), so a process
cannot leave this tree by outliving its parents.
"""

import os
from pathlib import Path

DEEPEST = 200


def descends_from_us(pid: int) -> bool:
    """Return whether `pid` is a descendant of this process; True also for a process that has exited."""
    ours = os.getpid()
    if pid == ours:
        return False
    for _ in range(DEEPEST):
        parent = _parent_of(pid)
        if parent is None or parent == ours:
            return True
        if parent <= 1:
            return False
        pid = parent
    return True


def _parent_of(pid: int) -> int | None:
    try:
        # The second field is the program's name in parentheses, and may contain any character.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1])
    except (OSError, IndexError, ValueError):
        return None
