"""The section `backup` of config.json: when the embedded stack backs its home up, and what it keeps."""

from datetime import timedelta

from pydantic import Field

from choir_common.wire.model import Name, WireModel
from choir_common.wire.trigger_config import INTERVAL_PATTERN

_UNITS = {"m": timedelta(minutes=1), "h": timedelta(hours=1), "d": timedelta(days=1)}


class BackupRetention(WireModel):
    """How many scheduled backups stay; only periods that have a backup count."""

    last: int = Field(default=2, ge=1, le=1000)
    """The newest ones."""
    daily: int = Field(default=7, ge=0, le=1000)
    """The newest one of each of this many days."""
    weekly: int = Field(default=4, ge=0, le=1000)
    """The newest one of each of this many weeks."""
    monthly: int = Field(default=6, ge=0, le=1000)
    """The newest one of each of this many months."""


class BackupConfig(WireModel):
    """Regular backups of the whole home, by the stack that `choirctl up` started. See docs/backup.md."""

    every: str = Field(default="1d", pattern=INTERVAL_PATTERN)
    """The time between two backups: minutes, hours or days, such as `12h`."""
    path: str | None = None
    """An absolute directory, better on another disk; default: `backups` in the state directory."""
    secret: Name | None = None
    """The secret with the passphrase. Without one backups are not encrypted and have no secrets."""
    workspaces: bool = True
    """Include the agents' workspaces."""
    keep: BackupRetention = BackupRetention()
    """Which scheduled backups stay; those that a person or an upgrade made are never deleted."""

    @property
    def interval(self) -> timedelta:
        """Return the time between two backups."""
        return int(self.every[:-1]) * _UNITS[self.every[-1]]
