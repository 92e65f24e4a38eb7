"""Temporary directories with paths that are short enough for Unix sockets, in memory where possible."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

MEMORY_DISK = Path("/dev/shm")
# enough for the write-ahead logs and databases of several servers; a container may have only 64 MiB
ENOUGH_BYTES = 4 * 1024**3


def make_short_directory(prefix: str) -> Path:
    """Create a directory in /dev/shm, or in the usual place if that is small or cannot run programs.

    A Unix socket path has 107 bytes at most, and pytest's temporary directories are too deep. No test depends
    on durability after a power failure, and a disk takes milliseconds for each commit.
    """
    place = MEMORY_DISK if _memory_disk_is_usable() else None
    return Path(tempfile.mkdtemp(prefix=prefix, dir=place))


@contextlib.contextmanager
def short_home() -> Iterator[Path]:
    """Create an empty directory and remove it afterwards."""
    home = make_short_directory("choir-")
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _memory_disk_is_usable() -> bool:
    if not MEMORY_DISK.is_dir() or os.statvfs(MEMORY_DISK).f_flag & os.ST_NOEXEC:
        return False
    return shutil.disk_usage(MEMORY_DISK).free > ENOUGH_BYTES
