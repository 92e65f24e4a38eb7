"""How much of the logs is kept (spec 22.2): what config.json says, for whoever writes one.

Asked by `file`. The file is read here and not by its schema: logs are written before control has looked at
it, by processes that never see the rest of it, and also while it does not fit.
"""

import json
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(frozen=True, slots=True)
class LogLimits:
    """The settings of the same names, and their defaults."""

    log_archive_threshold_lines: int = 100_000
    log_archive_keep_days: int = 90
    log_archive_keep_mb: int = 1_024


class FileLimits:
    """The limits of a config.json, read again when the file has changed."""

    def __init__(self, config_file: Path) -> None:
        self._file = config_file
        self._read_at = -1
        self._limits = LogLimits()

    def __call__(self) -> LogLimits:
        """Return those in force; what cannot be read changes nothing, and control says what is wrong."""
        try:
            changed = self._file.stat().st_mtime_ns
            if changed != self._read_at:
                self._read_at = changed
                self._limits = _limits_of(json.loads(self._file.read_bytes()))
        except (OSError, ValueError):
            return self._limits
        return self._limits


def _limits_of(config: object) -> LogLimits:
    """Return what fits, and the default for each that does not."""
    found = config if isinstance(config, dict) else {}
    given = {field.name: found.get(field.name) for field in fields(LogLimits)}
    return LogLimits(**{n: v for n, v in given.items() if type(v) is int and v > 0})
