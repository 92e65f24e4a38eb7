"""Lock keys, and which of them overlap. Pure.

Workspace keys form a tree: `workspace`, below it the top directory `file:.`, below that each `file:<path>`
under its directory. Other keys (`browser_tab`, `choirtmp`, …) are independent.
"""

from choir_common.wire.events import LockHold

WORKSPACE = "workspace"
FILE = "file:"
TOP = "file:."
EDGE = "edge"
CORE = "core:"
EDGE_EFFECTS = "edge_effects"
"""Shared by effects of the edge lane, exclusive for the start of a core job: neither begins during the
other."""


def chain(resource: str) -> tuple[str, ...]:
    """Return the ancestors of a key, outermost first, and then the key itself."""
    if not resource.startswith(FILE):
        return (resource,)
    if resource == TOP:
        return (WORKSPACE, TOP)
    ends = [place for place, sign in enumerate(resource) if sign == "/"]
    return (WORKSPACE, TOP, *(resource[:end] for end in ends), resource)


def overlap(one: str, other: str) -> bool:
    """Return whether one resource key equals or contains the other."""
    return one in chain(other) or other in chain(one)


def collide(one: LockHold, other: LockHold) -> bool:
    """Return whether two locks of different calls exclude each other."""
    return (one.mode == "X" or other.mode == "X") and overlap(one.resource, other.resource)


def is_command(owner: str, lock: LockHold) -> bool:
    """Return whether a lock is a core job's exclusive lock on the whole workspace."""
    return owner.startswith(CORE) and lock.resource == WORKSPACE and lock.mode == "X"


def reads_under_commands(owner: str, lock: LockHold) -> bool:
    """Return whether the edge lane may take this lock while a core job has the workspace (a dirty read)."""
    return owner == EDGE and lock.mode == "S" and lock.resource.startswith(FILE)
