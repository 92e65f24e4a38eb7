"""Measurement of a workspace's size within a time limit. Called in a thread."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

LOOK_EVERY = 500


@dataclass(frozen=True, slots=True)
class Measure:
    """Counts of files, bytes and entries of any kind; lower bounds when `complete` is False."""

    exists: bool
    files: int = 0
    size: int = 0
    complete: bool = True
    entries: int = 0


def measure(root: Path, within_s: float) -> Measure:
    """Count the files below `root` and their bytes, for `within_s` seconds at most, following no links."""
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
            whole = False  # no permission, path too long, or deleted meanwhile
    return Measure(True, files, size, whole, seen)
