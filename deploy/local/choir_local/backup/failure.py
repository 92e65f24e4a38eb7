"""The failure of the last scheduled backup: `data/backup-failure.json`, which is there until one succeeds."""

import contextlib
from datetime import datetime

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_local.home import Home, write_private


class BackupFailure(BaseModel):
    """Why and when a scheduled backup failed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    at: datetime
    reason: str


class BackupFailureFile:
    """The file in a state directory. Backups do not depend on it: what cannot be written is not kept."""

    def __init__(self, home: Home) -> None:
        self._path = home.data / "backup-failure.json"

    def read(self) -> BackupFailure | None:
        """Return the failure; None if the last scheduled backup succeeded, or none was made."""
        try:
            return BackupFailure.model_validate_json(self._path.read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, at: datetime, reason: str) -> None:
        """Keep a failure; an empty reason removes the last one."""
        # a full disk is a likely reason, and may not take this file either
        with contextlib.suppress(OSError):
            if reason:
                write_private(
                    self._path, BackupFailure(at=at, reason=reason).model_dump_json(indent=1)
                )
            else:
                self._path.unlink(missing_ok=True)
