"""Count of the bytes and files below directories, in short steps.

A directory that cannot be read counts as one file. Deleted files that are still open do not count.
"""

import os
import stat
import time
from collections.abc import Iterator, Sequence

BLOCK_BYTES = 512
"""Unit of `st_blocks`, whatever the file system."""
ENTRIES_PER_STEP = 200
CERTAIN_FACTOR = 2
"""A count ends at this multiple of a limit if it is long: a directory that grows as fast as it is read has no
end."""
LONG_COUNT_S = 5.0


class DiskUsage:
    """Bytes on disk, and number of files and directories."""

    def __init__(self, size: int = 0, files: int = 0) -> None:
        self.size = size
        self.files = files

    def __str__(self) -> str:
        return f"{self.size / 1e6:,.0f} MB in {self.files:,} files and directories"


class DiskLimits:
    """Limits on the bytes and the files of directories; 0 means no limit."""

    def __init__(self, *, size: int = 0, files: int = 0) -> None:
        self.size = size
        self.files = files

    def are_exceeded(self, usage: DiskUsage, factor: int = 1) -> bool:
        """Return whether a usage is over this multiple of a limit."""
        return 0 < self.size * factor < usage.size or 0 < self.files * factor < usage.files

    def __str__(self) -> str:
        parts = [f"{self.size / 1e6:,.0f} MB"] if self.size else []
        parts += [f"{self.files:,} files"] if self.files else []
        return " and ".join(parts)


class DiskCounter:
    """One count of everything below some directories; a file with several names counts once.

    It ends early, and `is_partial` is set, if it takes long and the limits are exceeded by far.
    """

    def __init__(
        self, directories: Sequence[str], limits: DiskLimits, *, long_s: float = LONG_COUNT_S
    ) -> None:
        self.usage = DiskUsage()
        self.is_partial = False
        self._long_at = time.monotonic() + long_s
        self._limits = limits
        self._steps = self._walk(list(directories))
        self._linked: set[tuple[int, int]] = set()

    def advance(self, until: float) -> bool:
        """Count until this time of the monotonic clock; return whether the count is complete."""
        return all(time.monotonic() < until for _ in self._steps)

    def _walk(self, waiting: list[str]) -> Iterator[None]:
        seen = 0
        while waiting:
            try:
                with os.scandir(waiting.pop()) as entries:
                    for entry in entries:
                        seen += 1
                        if seen % ENTRIES_PER_STEP == 0:
                            if self._stop_if_long():
                                return
                            yield
                        # A file that was deleted meanwhile must not end the count of its directory: the
                        # next count would then look like growth.
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:
                            continue
                        if stat.S_ISDIR(status.st_mode):
                            waiting.append(entry.path)
                        self._add(status)
            except OSError:
                continue  # a directory that was deleted meanwhile, or is not readable

    def _stop_if_long(self) -> bool:
        self.is_partial = time.monotonic() >= self._long_at and self._limits.are_exceeded(
            self.usage, CERTAIN_FACTOR
        )
        return self.is_partial

    def _add(self, status: os.stat_result) -> None:
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            identity = (status.st_dev, status.st_ino)
            if identity in self._linked:
                return
            self._linked.add(identity)
        self.usage.size += status.st_blocks * BLOCK_BYTES
        self.usage.files += 1
