"""Store operations that count and erase what the tables contain of a DM."""

from collections.abc import Mapping, Sequence

from choir_common.postgres.pool import Database
from choir_common.wire.erasure import ErasedSession
from choir_control.agents.erasure.places import PLACES, BlankedRows, DeletedRows, Place

_SESSIONS = """
SELECT session_id, agent_id, head_rev, head_hash FROM choir_control.sessions
WHERE dm = $1 ORDER BY started_at
"""
_UNFINISHED = """
SELECT agent_id FROM choir_control.sessions WHERE dm = $1 AND ended_at IS NULL ORDER BY agent_id
"""
# Nobody sends these any more. What is being sent now is blanked after it.
_CANCEL_DELIVERIES = """
UPDATE choir_control.outbox SET status = 'undeliverable', finished_at = clock_timestamp()
WHERE dm = $1 AND status = 'waiting'
"""
_CLOSE_MESSAGES = """
UPDATE choir_control.inbox SET closed_at = clock_timestamp()
WHERE dm = $1 AND closed_at IS NULL AND answered_rev IS NULL
"""
# Memory has erased these sessions for good, so that there is nothing to send to it.
_RELEASE = """
UPDATE choir_control.sessions SET archived_at = coalesce(archived_at, clock_timestamp())
WHERE session_id = ANY($1) AND ended_at IS NOT NULL
"""
_UNERASED = """
SELECT count(*) FROM choir_control.sessions AS s
LEFT JOIN choir_control.erased_logs AS e USING (session_id)
WHERE s.session_id = ANY($1) AND s.head_rev > 0 AND e.finished_at IS NULL
"""
_FILES = """
SELECT f.workspace, f.path FROM choir_control.received_files AS f
JOIN choir_control.inbox AS i USING (inbox_id) WHERE i.dm = $1
"""
# In the order of the references between them.
_DELETE_FIRST = ("received_files", "approval_nonces", "signals", "channel_messages")


class PersonStore:
    """Store of everything that control's tables contain of a DM."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_sessions(self, dm: str) -> list[ErasedSession]:
        """Return the sessions of a DM, oldest first."""
        rows = await self._database.fetch(_SESSIONS, dm)
        return [
            ErasedSession(
                session_id=row["session_id"],
                agent_id=row["agent_id"],
                events=row["head_rev"],
                head_hash=row["head_hash"],
            )
            for row in rows
        ]

    async def list_unfinished_agents(self, dm: str) -> list[str]:
        """Return the agents with a session in this DM that has not ended."""
        return [row["agent_id"] for row in await self._database.fetch(_UNFINISHED, dm)]

    async def count_rows(self, dm: str, session_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of rows with text of a DM by table, without tables that have none."""
        counts: dict[str, int] = {}
        for table, place in PLACES.items():
            condition = _with_text(place)
            if condition is None:
                continue
            # both parameters must occur in the statement
            sql = (
                f"SELECT count(*) FROM choir_control.{table} AS t "  # noqa: S608 our own registry
                f"WHERE ({condition}) AND $1::text IS NOT NULL AND $2::text[] IS NOT NULL"
            )
            count = int(await self._database.fetchval(sql, dm, list(session_ids)))
            if count:
                counts[table] = count
        return counts

    async def close_conversation(self, dm: str, session_ids: Sequence[str]) -> None:
        """Cancel what waits in a DM, and let its ended sessions be erased at once."""
        async with self._database.transaction() as connection:
            await connection.execute(_CANCEL_DELIVERIES, dm)
            await connection.execute(_CLOSE_MESSAGES, dm)
            await connection.execute(_RELEASE, list(session_ids))

    async def count_unerased(self, session_ids: Sequence[str]) -> int:
        """Return how many of these sessions still have a log."""
        return int(await self._database.fetchval(_UNERASED, list(session_ids)))

    async def list_received_files(self, dm: str) -> list[tuple[str, str]]:
        """Return the workspaces and paths of files that were received in a DM."""
        return [(row["workspace"], row["path"]) for row in await self._database.fetch(_FILES, dm)]

    async def erase_rows(self, dm: str, session_ids: Sequence[str]) -> None:
        """Erase what is left of a DM after its sessions, in one transaction."""
        async with self._database.transaction() as connection:
            for table in _DELETE_FIRST:
                place = PLACES[table]
                assert isinstance(place, DeletedRows)
                sql = f"DELETE FROM choir_control.{table} AS t WHERE {_bound(place.rows)}"  # noqa: S608
                await connection.execute(sql, dm, list(session_ids))
            for table, place in PLACES.items():
                if isinstance(place, BlankedRows):
                    sql = (
                        f"UPDATE choir_control.{table} AS t SET {place.assignments} "  # noqa: S608
                        f"WHERE {_bound(place.rows)}"
                    )
                    await connection.execute(sql, dm, list(session_ids))


def _with_text(place: Place) -> str | None:
    match place:
        case DeletedRows():
            return place.rows
        case BlankedRows():
            return f"({place.rows}) AND ({place.has_text})"
    return None


def _bound(rows: str) -> str:
    """Return a condition that contains both parameters."""
    return f"({rows}) AND $1::text IS NOT NULL AND $2::text[] IS NOT NULL"


def subtract(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what was removed, by table."""
    return {table: count - after.get(table, 0) for table, count in before.items()}
