"""Tell which lock keys overlap (spec 9.2): pure.

`workspace` stands over every `file:<path>`, and a directory over what is in it; other keys stand alone.
"""

from choir_common.wire.events import LockHold

WORKSPACE = "workspace"
FILE = "file:"
EDGE = "edge"
CORE = "core:"


def overlap(one: str, other: str) -> bool:
    """Tell whether two resource keys name something in common."""
    if one == other:
        return True
    if one == WORKSPACE:
        return other.startswith(FILE)
    if other == WORKSPACE:
        return one.startswith(FILE)
    if one.startswith(FILE) and other.startswith(FILE):
        return _inside(one, other) or _inside(other, one)
    return False


def _inside(inner: str, outer: str) -> bool:
    return outer == f"{FILE}." or inner.startswith(f"{outer}/")


def collide(one: LockHold, other: LockHold) -> bool:
    """Tell whether two locks cannot be held together by different calls."""
    return (one.mode == "X" or other.mode == "X") and overlap(one.resource, other.resource)


def dirty_read(owner: str, wanted: LockHold, other_owner: str, other: LockHold) -> bool:
    """Tell whether the edge may read a file although a core job has the workspace (spec 9.4)."""
    return (
        owner == EDGE
        and wanted.mode == "S"
        and wanted.resource.startswith(FILE)
        and other_owner.startswith(CORE)
        and other == LockHold(resource=WORKSPACE, mode="X")
    )
