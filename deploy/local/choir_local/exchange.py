"""Exchange of two directories by one atomic rename, where the system can do that."""

import ctypes
import os
import sys
from pathlib import Path

AT_FDCWD = -100
RENAME_EXCHANGE = 2


def put_in_place(new: Path, place: Path, aside: Path) -> None:
    """Move the directory `new` to `place`, and what is there, if anything, to `aside`."""
    if not place.exists() or not any(place.iterdir()):
        new.replace(place)
    else:
        exchange(new, place)
        new.replace(aside)


def exchange(first: Path, second: Path) -> None:
    """Exchange two directories.

    Without renameat2 (not Linux, and some file systems) a kill can leave `second` under the name `.old`.
    """
    if _exchange(first, second):
        return
    aside = second.with_name(f"{second.name}.old")
    second.replace(aside)
    first.replace(second)
    aside.replace(first)


def _exchange(first: Path, second: Path) -> bool:
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    paths = os.fsencode(first), os.fsencode(second)
    return bool(libc.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE) == 0)
