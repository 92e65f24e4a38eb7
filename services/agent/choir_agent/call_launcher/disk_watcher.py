"""Watcher of what a call adds to the directories it may write.

Counting takes seconds where there are many files. The watcher therefore asks for the free space of the file
systems, which is one system call, and counts the files only after much of it was used.
"""

import os
import time
from collections.abc import Sequence

from choir_agent.call_launcher.disk_usage import DiskCounter, DiskLimits, DiskUsage

RESERVED_BYTES = 1 << 30
"""Free space that a call must leave on a file system, for the services that store there, too."""
RESERVED_PART = 20
"""A small file system keeps one part in this number free instead."""
IGNORED_BYTES, IGNORED_FILES = 1 << 20, 100
LARGE_GROWTH_BYTES = 16 << 20
"""A call during which less was used is not ended on a disk that is nearly full."""
PARTS = 50
"""The directories are counted after growth by one part in this number of a limit."""
COUNT_STEP_S = 0.05
RECOUNT_S = 30.0
"""Time until they are counted without growth, too: others may free as much space as the call uses."""
REST_FACTOR = 10
"""A count is not repeated before this multiple of its duration, unless the limit is exceeded."""


class DiskWatcher:
    """Watcher of the directories of one call, from before the start of its program."""

    def __init__(self, *, directories: Sequence[str], limits: DiskLimits, is_full: bool) -> None:
        """Set the directories; `is_full` if they are known to exceed the limits already."""
        self._directories = list(directories)
        self._limits = limits
        self._is_full = is_full
        self._systems = _open_file_systems(directories)
        self._at_start = self._at_count = self._measure_systems()
        self._count: DiskCounter | None = None
        self._count_began = 0.0
        self._last_count_at = time.monotonic()
        self._rest_until = 0.0
        self._over: DiskUsage | None = None
        self._at_excess = self._at_start
        """What was used on the file systems when the first count over a limit began."""

    @property
    def is_counting(self) -> bool:
        """Return whether a count has begun and is not complete."""
        return self._count is not None

    def find_excess(self) -> str:
        """Return which limit the call exceeds, or an empty string; takes at most a step of a count."""
        now = self._measure_systems()
        if now.size - self._at_start.size >= LARGE_GROWTH_BYTES:
            for path, descriptor in self._systems.items():
                if shortage := _find_shortage(path, descriptor):
                    return shortage
        if self._count is None and self._is_count_due(now):
            self._count = DiskCounter(self._directories, self._limits)
            self._count_began, self._at_count = time.monotonic(), now
        if self._count is None or not self._count.advance(time.monotonic() + COUNT_STEP_S):
            return ""
        count, self._count = self._count, None
        has_grown = count.is_partial and _is_more(now, self._at_excess)
        return self._judge(count.usage, has_grown=has_grown)

    def _is_count_due(self, now: DiskUsage) -> bool:
        if not (self._limits.size or self._limits.files) or time.monotonic() < self._rest_until:
            return False
        size, files = IGNORED_BYTES, IGNORED_FILES
        if not self._is_full and self._over is None:
            size = max(size, self._limits.size // PARTS)
            files = max(files, self._limits.files // PARTS)
        grew = now.size - self._at_count.size >= size or now.files - self._at_count.files >= files
        return grew or time.monotonic() - self._last_count_at >= RECOUNT_S

    def _judge(self, usage: DiskUsage, *, has_grown: bool) -> str:
        """Return an excess for directories over a limit that have grown since a count over the limit.

        A call that only deletes may run. Two counts that ended early cannot be compared; `has_grown` tells
        whether the file systems have grown since the first began.
        """
        before, self._over = self._over, None
        self._last_count_at = time.monotonic()
        if not self._limits.are_exceeded(usage):
            self._rest_until = self._last_count_at + REST_FACTOR * (
                self._last_count_at - self._count_began
            )
            return ""
        self._over = usage
        if before is None:
            self._at_excess = self._at_count
            return ""
        if not has_grown and usage.size <= before.size and usage.files <= before.files:
            return ""
        return f"the workspace with its temporary files has {usage}; the limit is {self._limits}"

    def _measure_systems(self) -> DiskUsage:
        """Return what is used on the file systems, also by other programs."""
        usage = DiskUsage()
        for descriptor in self._systems.values():
            status = os.fstatvfs(descriptor)
            usage.size += (status.f_blocks - status.f_bfree) * status.f_frsize
            usage.files += status.f_files - status.f_ffree
        return usage


def _is_more(now: DiskUsage, before: DiskUsage) -> bool:
    size, files = now.size - before.size, now.files - before.files
    return size >= IGNORED_BYTES or files >= IGNORED_FILES


def _open_file_systems(directories: Sequence[str]) -> dict[str, int]:
    """Return one of the directories for each file system, with an open descriptor; without missing ones."""
    devices: set[int] = set()
    systems: dict[str, int] = {}
    for path in directories:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            continue
        device = os.fstat(descriptor).st_dev
        if device in devices:
            os.close(descriptor)
            continue
        devices.add(device)
        systems[path] = descriptor
    return systems


def _find_shortage(path: str, descriptor: int) -> str:
    """Return how little space a file system has, if it is less than what a call must leave."""
    status = os.fstatvfs(descriptor)
    reserved = min(RESERVED_BYTES, status.f_blocks * status.f_frsize // RESERVED_PART)
    free = status.f_bavail * status.f_frsize
    if free >= reserved:
        return ""
    return (
        f"the disk is nearly full: {free / 1e6:,.0f} MB are free at {path}, and "
        f"{reserved / 1e6:,.0f} MB must stay free"
    )
