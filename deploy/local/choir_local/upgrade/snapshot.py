"""The database from before an upgrade, and the way back to it.

On Choir's own server it is a second database: going back is one rename, which takes milliseconds and cannot
fail halfway. `server_snapshot` has the way on a server of somebody else.
"""

import os
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_local.database.connection import MAINTENANCE, DatabaseAccess, open_database
from choir_local.database.store import DatabaseStore
from choir_local.home import Home
from choir_local.postgres_cluster import DATABASE
from choir_local.settings import LocalSettings

BEFORE = "choir_before_upgrade"
FAILED = "choir_failed_upgrade"
"""The database of an upgrade that was undone: messages that arrived in it are not lost, but not answered."""

HEADS = """
    SELECT s.session_id, s.head_rev, s.head_hash,
        (SELECT count(*) FROM choir_control.session_events e WHERE e.session_id = s.session_id)
    FROM choir_control.sessions s ORDER BY s.session_id"""


class DatabaseSnapshot(Protocol):
    """A copy of Choir's data.

    Each method may be repeated after a kill; nothing uses the database meanwhile.
    """

    async def database_size(self) -> int:
        """Return the size of the data in bytes, and the copy needs about as much."""

    async def make(self) -> None:
        """Copy the data; an earlier, incomplete copy is replaced."""

    async def check_heads(self) -> None:
        """Compare the head and length of every log with those of the copy. Raises StartupError."""

    async def restore(self) -> None:
        """Put the copy back, unless that was done already."""

    async def remove(self) -> None:
        """Remove the copy, and what an earlier upgrade left."""


class EmbeddedSnapshot:
    """A second database of Choir's own server."""

    def __init__(self, settings: LocalSettings, home: Home) -> None:
        self._settings = settings
        self._home = home

    async def database_size(self) -> int:
        """Return the size of the server's directory."""
        return sum(
            _size(Path(folder) / name)
            for folder, _, names in os.walk(self._home.data / "postgres")
            for name in names
        )

    async def make(self) -> None:
        """Copy the database."""
        async with self._stopped() as access, access.database(MAINTENANCE, size=1) as maintenance:
            await DatabaseStore(maintenance).drop_database(BEFORE)
            # copying the files writes nothing to the write-ahead log, which a large database would fill
            await maintenance.execute(
                f'CREATE DATABASE "{BEFORE}" TEMPLATE "{DATABASE}" STRATEGY FILE_COPY'
            )

    async def check_heads(self) -> None:
        """Compare the logs of both databases."""
        async with self._stopped() as access:
            before, after = [await _heads(access, name) for name in (BEFORE, DATABASE)]
        compare_heads(before, after)

    async def restore(self) -> None:
        """Rename the copy to the database."""
        async with self._stopped() as access, access.database(MAINTENANCE, size=1) as maintenance:
            store = DatabaseStore(maintenance)
            if await store.has_database(BEFORE):
                await store.rename_into_place(DATABASE, BEFORE, FAILED)

    async def remove(self) -> None:
        """Remove the copy; Choir may run."""
        async with (
            open_database(self._settings) as access,
            access.database(MAINTENANCE, size=1) as maintenance,
        ):
            for name in (BEFORE, FAILED):
                await DatabaseStore(maintenance).drop_database(name)

    def _stopped(self) -> AbstractAsyncContextManager[DatabaseAccess]:
        return open_database(self._settings, stopped=True)


async def read_heads(database: Database) -> set[tuple[str, ...]]:
    """Return session, revision, hash and length of every log; nothing if there is no log yet."""
    if not await database.fetchval("SELECT to_regclass('choir_control.sessions') IS NOT NULL"):
        return set()
    return {tuple(map(str, row.values())) for row in await database.fetch(HEADS)}


def compare_heads(before: set[tuple[str, ...]], after: set[tuple[str, ...]]) -> None:
    """Raise StartupError if a log differs."""
    changed = sorted({row[0] for row in before ^ after})
    if changed:
        raise StartupError(
            _("The migration changed the log of session {session}.").format(session=changed[0])
        )


async def _heads(access: DatabaseAccess, name: str) -> set[tuple[str, ...]]:
    async with access.database(name, size=1) as database:
        return await read_heads(database)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
