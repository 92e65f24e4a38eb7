"""Tell how much a workspace holds, within a bound of time. Called by the operator door, in a thread."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY = 500


@dataclass(frozen=True, slots=True)
class Measure:
    """Files, bytes, and entries of any kind; more than that when `complete` is false."""

    exists: bool
    files: int = 0
    size: int = 0
    complete: bool = True
    entries: int = 0


def measure(root: Path, within_s: float) -> Measure:
    """Count the files below `root` and their bytes, without following a link, for `within_s` at most."""
    root = root.expanduser()
    if not root.is_dir():
        return Measure(exists=False)
    files, size, deadline = 0, 0, time.monotonic() + within_s
    waiting, seen, whole = [str(root)], 0, True
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen % LOOK_EVERY == 0 and time.monotonic() > deadline:
                        return Measure(True, files, size, False, seen)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        files += 1
                        size += entry.stat(follow_symlinks=False).st_size
        except OSError:
            whole = False  # no permission, too deep, or just gone
    return Measure(True, files, size, whole, seen)
