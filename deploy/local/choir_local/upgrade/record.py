"""The record of an upgrade: `upgrade/upgrade.json` in the state directory, written before each step."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import Conflict, StartupError
from choir_common.i18n import _
from choir_local.backup.sources import UPGRADES
from choir_local.home import Home, write_private

ForwardStep = Literal[
    "prepare", "backup", "stop", "snapshot", "switch", "migrate", "start", "verify", "finish"
]
BackStep = Literal["halt", "switch_back", "restore", "start_again"]
Step = ForwardStep | BackStep
CodeKind = Literal["checkout", "wheels", "installed", "compose"]
Outcome = Literal["done", "rolled-back", "abandoned"]
STEP_VARIABLE = "CHOIR_UPGRADE_STEP"
"""Set for the commands that an upgrade runs, so that they do not continue the upgrade themselves."""


class UpgradeVersions(BaseModel):
    """Where the new code comes from, and what it replaces."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CodeKind
    source: str = ""
    """A directory of wheels, an index's address, or a ref of git."""
    directory: str = ""
    """The directory of the compose file, for Choir in containers."""
    old: str = ""
    """The commit or version before the upgrade."""
    new: str = ""
    """The commit or version after it."""


class UpgradeRecord(BaseModel):
    """One upgrade and how far it is."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    id: str
    made_at: datetime
    code: UpgradeVersions
    was_running: bool
    backup: str = ""
    """The backup file from before the upgrade."""
    step: Step = "prepare"
    """The step that is at work, or was when it was killed."""
    last_forward: Step = "prepare"
    """The last step that was begun before it was undone."""
    attempts: int = 1
    error: str = ""
    """Why it is undone."""
    outcome: Outcome | None = None


class UpgradeRecordFile:
    """The record in a state directory."""

    def __init__(self, home: Home) -> None:
        self.directory = home.root / UPGRADES
        self._path = self.directory / "upgrade.json"

    def read(self) -> UpgradeRecord | None:
        """Return the last upgrade. Raises StartupError if the file cannot be read."""
        try:
            return UpgradeRecord.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            raise StartupError(
                _(
                    "{path} cannot be read, so it is unknown whether an upgrade is unfinished. See "
                    "docs/upgrade.md."
                ).format(path=self._path)
            ) from error

    def write(self, record: UpgradeRecord) -> None:
        """Replace the record, durably."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        write_private(self._path, record.model_dump_json(indent=1), durable=True)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Let one upgrade work at a time. Raises Conflict."""
        self.directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Conflict(
                    _("An upgrade of this state directory is at work. Wait for it.")
                ) from None
            yield
        finally:
            os.close(descriptor)


def is_unfinished(home: Home) -> bool:
    """Return whether an upgrade of this home was interrupted."""
    record = UpgradeRecordFile(home).read()
    return record is not None and record.outcome is None
