"""Record of the newest version that used a home's database: `data/version.json`.

Written by `Stack` when everything is ready, and compared before the next start: an older Choir is refused in
plain words before its services fail one by one.
"""

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from choir_common.errors import StartupError
from choir_common.extras import installed_version
from choir_common.i18n import _
from choir_local.home import Home, write_private

MIGRATIONS = (
    "choir_control.migrations",
    "choir_memory.migrations.shared",
    "choir_memory.migrations.agent",
)
UPGRADE_BACKUPS = "choir-*-upgrade.tar*"


class VersionRecord(BaseModel):
    """A version of Choir and the newest migration of each of its schemas."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    choir: str
    newest: Mapping[str, str]
    """The newest migration's name by the package of the files."""


def write_version(home: Home) -> None:
    """Record this version. Raises OSError."""
    newest = {package: _names(package)[-1] for package in MIGRATIONS}
    record = VersionRecord(choir=installed_version(), newest=newest)
    write_private(version_file(home), record.model_dump_json(indent=1))


def check_version(home: Home, backups: Path) -> None:
    """Raise StartupError if a newer Choir used the database; the message names the backup to restore."""
    try:
        record = VersionRecord.model_validate_json(version_file(home).read_bytes())
    except (OSError, ValidationError):
        return
    unknown = [
        name
        for package, name in record.newest.items()
        if package in MIGRATIONS and name not in _names(package)
    ]
    if not unknown:
        return
    newest = max(backups.glob(UPGRADE_BACKUPS), default=None, key=lambda path: path.name)
    restore = (
        _(
            "`choirctl backup restore {newest} --replace`, the state from before the last upgrade"
        ).format(newest=newest)
        if newest
        else _("a backup made by this version")
    )
    raise StartupError(
        _(
            "The database in {root} was used by a newer Choir ({choir}, with {unknown}), and "
            "it cannot go back. Install that version again, or restore {restore}."
        ).format(root=home.root, choir=record.choir, unknown=unknown[0], restore=restore)
    )


def version_file(home: Home) -> Path:
    """Return the file of the record."""
    return home.data / "version.json"


def _names(package: str) -> list[str]:
    names = (entry.name for entry in files(package).iterdir())
    return sorted(name for name in names if name.endswith(".sql"))
