"""Limits on log files, and deletion of archived logs by age and size. Used by `file`, in its thread.

The limits are read from config.json here and not through the config models: processes that never load the
whole file write logs, and they do so before control has validated it, or while it is invalid.
"""

import contextlib
import json
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Protocol, Self

DAY_S = 86_400.0
MB = 1 << 20
ARCHIVED_FILES = "*.log*"


class LogLimitsSource(Protocol):
    """Source of the limits that apply now."""

    def current(self) -> "LogLimits":
        """Return the current limits."""


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The settings of the same names, with their defaults."""

    log_archive_threshold_lines: int = 100_000
    log_archive_keep_days: int = 90
    log_archive_keep_mb: int = 1_024

    def current(self) -> Self:
        """Return these limits: a fixed source of limits."""
        return self


class LogLimitsReader:
    """The limits in a config.json, read again when the file has changed."""

    def __init__(self, config_file: Path) -> None:
        self._file = config_file
        self._read_at = -1
        self._limits = LogLimits()

    def current(self) -> LogLimits:
        """Return the current limits; an unreadable file leaves them unchanged.

        Control reports what is wrong with the file.
        """
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._read_at:
                self._read_at = changed
                self._limits = _limits_of(json.loads(self._file.read_bytes()))
        except (OSError, ValueError):
            return self._limits
        return self._limits


def _limits_of(config: object) -> LogLimits:
    """Return the valid values, and the default for each invalid one."""
    section = config if isinstance(config, dict) else {}
    values = {field.name: section.get(field.name) for field in fields(LogLimits)}
    return LogLimits(**{n: v for n, v in values.items() if type(v) is int and v > 0})


def prune(archive: Path, limits: LogLimits) -> None:
    """Delete files past the retention period, then each source's oldest files above its size limit.

    The newest file of a source always stays. A file that cannot be deleted is tried again next time.
    """
    # Every writer prunes the archives of all sources, since a removed agent writes no more. Several may
    # run at the same time.
    oldest = time.time() - limits.log_archive_keep_days * DAY_S
    for source in archive.iterdir() if archive.is_dir() else ():
        # The names are timestamps.
        files = sorted(
            (path for path in source.glob(ARCHIVED_FILES) if path.is_file()), reverse=True
        )
        total = 0
        for index, path in enumerate(files):
            with contextlib.suppress(OSError):
                status = path.stat()
                total += status.st_size
                too_much = total > limits.log_archive_keep_mb * MB
                if index and (too_much or status.st_mtime < oldest):
                    path.unlink()
