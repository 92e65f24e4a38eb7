"""Restore of a whole-home backup in containers, where the state directory is a mount that no rename replaces.

Everything is put together in `.restoring` in the state directory. Then a file marks it as complete, and the
entries are moved one by one. If that is interrupted, the next restore completes it first, and `setup` starts
nothing meanwhile.
"""

import shutil
from datetime import UTC, datetime
from pathlib import Path

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_local.backup.manifest import BackupManifest
from choir_local.backup.sources import BACKUPS, SECRETS, UPGRADES
from choir_local.database.connection import MAINTENANCE, DatabaseAccess
from choir_local.database.restore import NEW_DATABASE, OLD_DATABASE
from choir_local.database.store import DatabaseStore
from choir_local.home import Home, sync_directory, write_private
from choir_local.postgres_cluster import DATABASE

STAGING = ".restoring"
COMPLETE = "complete"
"""A file in `.restoring` with the name of the directory for what is replaced."""
ASIDE = "before-restore-"
MOVED = ".moved"
"""A file in that directory once everything from before is in it."""
STAYS = frozenset({STAGING, BACKUPS, UPGRADES, "run", "socks", "logs", "spool", ".secrets.lock"})
"""What a backup does not contain, or what the containers of this machine have open."""


def staging_directory(home: Home) -> Path:
    """Return where a restore is put together."""
    return home.root / STAGING


def is_restore_unfinished(home: Home) -> bool:
    """Return whether a restore was interrupted while it moved its files."""
    return (staging_directory(home) / COMPLETE).exists()


async def require_replaceable(access: DatabaseAccess, *, replace: bool) -> None:
    """Raise Conflict if there are conversations or memories that a restore would replace."""
    async with access.database() as database:
        if not replace and not await DatabaseStore(database).is_empty():
            raise Conflict(
                _(
                    "The database of {root} contains sessions or memories. Give --replace: the files "
                    "are then kept in a directory of their own, and the database until the next "
                    "restore."
                ).format(root=access.home.root)
            )


def mark_complete(home: Home, manifest: BackupManifest, now: datetime | None = None) -> None:
    """Mark what was put together as complete: from here on it is put in place, also after a kill."""
    names = [
        *(() if manifest.secrets else SECRETS),
        *(() if manifest.workspaces else ("workspaces",)),
    ]
    aside = f"{ASIDE}{now or datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    write_private(
        staging_directory(home) / COMPLETE, "\n".join([aside, *names]) + "\n", durable=True
    )


async def finish_restore(access: DatabaseAccess) -> Path:
    """Put in place what is complete; return the directory with what was there. May be repeated."""
    staging = staging_directory(access.home)
    name, *others = (staging / COMPLETE).read_text().split()
    aside = access.home.root / name
    move_entries(access.home.root, staging, aside, STAYS | set(others))
    async with access.database(MAINTENANCE) as maintenance:
        store = DatabaseStore(maintenance)
        if await store.has_database(NEW_DATABASE):
            await store.rename_into_place(DATABASE, NEW_DATABASE, OLD_DATABASE)
    (staging / COMPLETE).unlink()
    (aside / MOVED).unlink()
    shutil.rmtree(staging)
    return aside


def move_entries(root: Path, staging: Path, aside: Path, stays: frozenset[str] | set[str]) -> None:
    """Move what is in `root` to `aside`, and what is in `staging` to `root`. May be repeated after a kill.

    Once `aside` has the mark, what is left in `root` came from the backup.
    """
    aside.mkdir(mode=0o700, exist_ok=True)
    if not (aside / MOVED).exists():
        for path in list(root.iterdir()):
            if path.name not in stays and not path.name.startswith(ASIDE):
                path.replace(aside / path.name)
        sync_directory(aside)
        (aside / MOVED).touch()
        sync_directory(aside)
    for path in list(staging.iterdir()):
        if path.name != COMPLETE and path.name not in stays:
            path.replace(root / path.name)
    sync_directory(root)
