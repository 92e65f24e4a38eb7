"""Tell which lock keys overlap (spec 9.2): pure.

Keys that stand over others form a tree: `workspace`, below it the workspace's top directory `file:.`, below
that every `file:<path>` under its directory. Other keys (`browser_tab`, `choirtmp`, …) stand alone.
"""

from choir_common.wire.events import LockHold

WORKSPACE = "workspace"
FILE = "file:"
TOP = "file:."
EDGE = "edge"
CORE = "core:"
EDGE_EFFECTS = "edge_effects"
"""Shared by what the edge lane changes, exclusive to the start of a core job, which ends that freedom."""


def chain(resource: str) -> tuple[str, ...]:
    """Return the keys that stand over a key, outermost first, and at its end the key itself."""
    if not resource.startswith(FILE):
        return (resource,)
    if resource == TOP:
        return (WORKSPACE, TOP)
    ends = [place for place, sign in enumerate(resource) if sign == "/"]
    return (WORKSPACE, TOP, *(resource[:end] for end in ends), resource)


def overlap(one: str, other: str) -> bool:
    """Tell whether two resource keys name something in common."""
    return one in chain(other) or other in chain(one)


def collide(one: LockHold, other: LockHold) -> bool:
    """Tell whether two locks cannot be held together by different calls."""
    return (one.mode == "X" or other.mode == "X") and overlap(one.resource, other.resource)


def is_command(owner: str, lock: LockHold) -> bool:
    """Tell whether a lock is a core job's on the whole workspace."""
    return owner.startswith(CORE) and lock.resource == WORKSPACE and lock.mode == "X"


def reads_under_commands(owner: str, lock: LockHold) -> bool:
    """Tell whether a lock is one the edge may take while a core job has the workspace (spec 9.4)."""
    return owner == EDGE and lock.mode == "S" and lock.resource.startswith(FILE)
