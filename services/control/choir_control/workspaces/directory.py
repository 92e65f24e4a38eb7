"""Measurement of a workspace within a time limit, and the check whether it may be emptied."""

import os
import re
import stat
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from choir_common.errors import Conflict
from choir_common.i18n import _

# Choir's own directories in its home; `workspaces/` is not one of them.
RESERVED_DIRECTORIES = ("data", "repos", "socks", "logs", "agents", "run", "images", "backups")
MOUNTS = Path("/proc/self/mountinfo")
_OCTAL = re.compile(r"\\([0-7]{3})")
LOOK_EVERY = 500
BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever the file system."""


def check_may_be_emptied(path: Path, home: Path) -> Path:
    """Return the absolute path of a workspace that may be emptied.

    Raises Conflict for a symbolic link, the root directory or a directory directly below it, a home directory
    or a parent of one, Choir's own state, or a directory with a mount inside.
    """
    root = Path(path).expanduser()
    if not root.is_absolute():
        raise _refusal(root, "it is not an absolute path")
    if root.is_symlink():
        raise _refusal(root, "it is a symbolic link; name the directory itself in config.json")
    real = root.resolve()
    if len(real.parts) < 3:  # "/" and one name
        raise _refusal(root, "it is at the top level of the file system")
    for keep, description in (
        (Path.home(), "your home directory"),
        (home, "Choir's state directory"),
    ):
        protected = keep.resolve()
        if protected == real or protected.is_relative_to(real):
            raise _refusal(root, f"it is {description}, or that is inside it")
    for part in RESERVED_DIRECTORIES:
        if real.is_relative_to((home / part).resolve()):
            raise _refusal(root, f"Choir keeps its own {part} there")
    for mount in _mounts():
        if mount != real and mount.is_relative_to(real):
            raise _refusal(root, f"something is mounted at {mount}; unmount that first")
    return real


def _mounts() -> list[Path]:
    try:
        lines = MOUNTS.read_text(errors="surrogateescape").splitlines()
    except OSError:  # not Linux
        return []
    fields = [line.split(" ") for line in lines]
    return [Path(_OCTAL.sub(lambda m: chr(int(m[1], 8)), f[4])) for f in fields if len(f) > 4]


def _refusal(root: Path, why: str) -> Conflict:
    return Conflict(_("The workspace {root} cannot be emptied: {why}.").format(root=root, why=why))


@dataclass(frozen=True, slots=True)
class WorkspaceSize:
    """Counts of files, bytes and entries of any kind; lower bounds when `complete` is False."""

    exists: bool
    files: int = 0
    size: int = 0
    complete: bool = True
    entries: int = 0
    allocated: int = 0
    """Bytes on disk of files and directories; a file with several names counts once."""


def measure_workspace(root: Path, within_s: float, cancelled: threading.Event) -> WorkspaceSize:
    """Count the files below `root` and their bytes, following no links.

    It ends early, incomplete, after `within_s` seconds or when `cancelled` is set.
    """
    root = root.expanduser()
    if not root.is_dir():
        return WorkspaceSize(exists=False)
    files, size, allocated, deadline = 0, 0, 0, time.monotonic() + within_s
    waiting, seen, is_complete = [str(root)], 0, True
    linked: set[tuple[int, int]] = set()
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    is_look = seen % LOOK_EVERY == 0
                    if is_look and (cancelled.is_set() or time.monotonic() > deadline):
                        return WorkspaceSize(True, files, size, False, seen, allocated)
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        waiting.append(entry.path)
                    else:
                        files += 1
                        size += status.st_size
                        if status.st_nlink > 1:
                            if (status.st_dev, status.st_ino) in linked:
                                continue
                            linked.add((status.st_dev, status.st_ino))
                    allocated += status.st_blocks * BLOCK_BYTES
        except OSError:
            is_complete = False  # no permission, path too long, or deleted meanwhile
    return WorkspaceSize(True, files, size, is_complete, seen, allocated)
