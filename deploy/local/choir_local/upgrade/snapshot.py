"""The database from before an upgrade, as a second database of the same server.

Going back is one rename, which takes milliseconds and cannot fail halfway, and needs no passphrase.
"""

from choir_common.errors import StartupError
from choir_local.database.connection import MAINTENANCE, DatabaseAccess
from choir_local.database.store import DatabaseStore
from choir_local.postgres_cluster import DATABASE

BEFORE = "choir_before_upgrade"
FAILED = "choir_failed_upgrade"
"""The database of an upgrade that was undone: messages that arrived in it are not lost, but not answered."""

HEADS = """
    SELECT s.session_id, s.head_rev, s.head_hash,
        (SELECT count(*) FROM choir_control.session_events e WHERE e.session_id = s.session_id)
    FROM choir_control.sessions s ORDER BY s.session_id"""


async def make_snapshot(access: DatabaseAccess) -> None:
    """Copy the database; nothing may use it. An earlier, incomplete copy is replaced."""
    async with access.database(MAINTENANCE, size=1) as maintenance:
        await DatabaseStore(maintenance).drop_database(BEFORE)
        # copying the files writes nothing to the write-ahead log, which a large database would fill
        await maintenance.execute(
            f'CREATE DATABASE "{BEFORE}" TEMPLATE "{DATABASE}" STRATEGY FILE_COPY'
        )


async def restore_snapshot(access: DatabaseAccess) -> None:
    """Put the copy back as the database, unless that was done already."""
    async with access.database(MAINTENANCE, size=1) as maintenance:
        store = DatabaseStore(maintenance)
        if await store.has_database(BEFORE):
            await store.rename_into_place(DATABASE, BEFORE, FAILED)


async def drop_snapshot(access: DatabaseAccess) -> None:
    """Remove the copy, and what an earlier upgrade left."""
    async with access.database(MAINTENANCE, size=1) as maintenance:
        for name in (BEFORE, FAILED):
            await DatabaseStore(maintenance).drop_database(name)


async def check_heads(access: DatabaseAccess) -> None:
    """Compare the head and length of every log with those before the migration. Nothing may run yet.

    Raises StartupError if one differs.
    """
    before, after = await _heads(access, BEFORE), await _heads(access, DATABASE)
    changed = sorted({str(row[0]) for row in before ^ after})
    if changed:
        raise StartupError(f"The migration changed the log of session {changed[0]}.")


async def _heads(access: DatabaseAccess, name: str) -> set[tuple[object, ...]]:
    async with access.database(name, size=1) as database:
        if not await database.fetchval("SELECT to_regclass('choir_control.sessions') IS NOT NULL"):
            return set()
        return {tuple(row.values()) for row in await database.fetch(HEADS)}
