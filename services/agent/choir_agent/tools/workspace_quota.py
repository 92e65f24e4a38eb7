"""Limits on the bytes and files of a workspace, for the agent's own tools and for programs.

The directories are counted before something is written, but for a fiftieth of the time at most. Between two
counts the tools add what they write. Programs have a watcher of their own (`call_launcher.disk_watcher`).
"""

import asyncio
import threading
import time
from pathlib import Path

import structlog

from choir_agent.call_launcher.disk_usage import DiskCounter, DiskLimits, DiskUsage
from choir_agent.settings import SettingsSource
from choir_agent.tools.tool import ToolFailed
from choir_common.wire.config import WorkspaceLimits

log = structlog.get_logger("choir.agent.tools")

FRESH_S = 10.0
COUNT_WITHIN_S = 5.0
REST_FACTOR = 50
"""A count is not repeated before this multiple of its duration, unless the workspace is full."""
MEGABYTE = 1_000_000


class WorkspaceQuota:
    """Limits of one workspace, with the last count."""

    def __init__(self, *directories: Path) -> None:
        """Count these directories together. There are no limits before `follow` or `limit`."""
        self.directories = tuple(map(str, directories))
        self._settings: SettingsSource | None = None
        self._fixed = WorkspaceLimits(mb=None, files=None)
        self._lock = threading.Lock()
        self._usage = DiskUsage()
        self._additions = DiskUsage()
        """What tools have written since the last count."""
        self._fresh_until = 0.0
        self._is_full = False

    def include(self, directory: Path) -> None:
        """Count another directory, too."""
        self.directories += (str(directory),)

    def follow(self, settings: SettingsSource) -> None:
        """Use the limits of the current settings."""
        self._settings = settings

    def limit(self, limits: WorkspaceLimits) -> None:
        """Use limits that do not change."""
        self._fixed = limits

    @property
    def limits(self) -> DiskLimits:
        """Return the limits in force; 0 is no limit."""
        limits = self._fixed
        if self._settings is not None:
            limits = self._settings.current().settings.workspace_limits
        return DiskLimits(size=(limits.mb or 0) * MEGABYTE, files=limits.files or 0)

    async def find_excess(self) -> str:
        """Return what the workspace has and may have if it is over a limit, or an empty string."""
        if self._is_count_due(self.limits, 0):
            return await asyncio.to_thread(self._find_excess, 0)
        return self._describe_excess(self.limits, 0)

    def check_write(self, new_bytes: int) -> None:
        """Count a file that a tool is about to write; raises ToolFailed if it is too much. Blocks."""
        if excess := self._find_excess(new_bytes):
            raise ToolFailed(
                "workspace_full",
                f"{excess} Nothing was written. Delete what is not needed with choir.exec, or ask the user "
                "to raise `limits` of this workspace in config.json.",
            )
        with self._lock:
            self._additions.size += new_bytes
            self._additions.files += 1

    def _find_excess(self, new_bytes: int) -> str:
        limits = self.limits
        with self._lock:
            if self._is_count_due(limits, new_bytes):
                self._count(limits)
            return self._describe_excess(limits, new_bytes)

    def _describe_excess(self, limits: DiskLimits, new_bytes: int) -> str:
        if not limits.are_exceeded(self._planned(new_bytes)):
            return ""
        return (
            f"The workspace with its temporary files has {self._planned(0)}; its limit is {limits}."
        )

    def _planned(self, new_bytes: int) -> DiskUsage:
        return DiskUsage(
            self._usage.size + self._additions.size + new_bytes,
            self._usage.files + self._additions.files + (new_bytes > 0),
        )

    def _is_count_due(self, limits: DiskLimits, new_bytes: int) -> bool:
        """Return whether the count is old, or only what was written since leads over a limit."""
        if not (limits.size or limits.files):
            return False
        is_estimate = self._additions.files > 0 and limits.are_exceeded(self._planned(new_bytes))
        return is_estimate or time.monotonic() >= self._fresh_until

    def _count(self, limits: DiskLimits) -> None:
        start = time.monotonic()
        count = DiskCounter(self.directories, limits)
        # A count that is not complete in time, or far over the limits, is a lower bound.
        count.advance(start + COUNT_WITHIN_S)
        finish = time.monotonic()
        duration_s = finish - start
        was_full, self._is_full = self._is_full, limits.are_exceeded(count.usage)
        self._usage, self._additions = count.usage, DiskUsage()
        if self._is_full and not was_full:
            log.warning("workspace is over its limit", usage=str(count.usage), limit=str(limits))
        # After files were deleted, the next write should be possible soon.
        rest_s = duration_s if self._is_full else max(FRESH_S, REST_FACTOR * duration_s)
        self._fresh_until = finish + rest_s
