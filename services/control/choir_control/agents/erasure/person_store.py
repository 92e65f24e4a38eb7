"""Store operations that count and erase what the tables contain of DMs."""

from collections.abc import Mapping, Sequence

from choir_common.postgres.pool import Database
from choir_common.wire.erasure import ErasedSession
from choir_control.agents.erasure.places import PLACES, BlankedRows, DeletedRows, Place

_SESSIONS = """
SELECT session_id, agent_id, head_rev, head_hash FROM choir_control.sessions AS s
WHERE dm = ANY($1) OR EXISTS (SELECT FROM choir_control.session_conversations AS c
                         WHERE c.session_id = s.session_id AND c.dm = ANY($1))
ORDER BY started_at
"""
_UNFINISHED = """
SELECT agent_id FROM choir_control.sessions AS s
WHERE ended_at IS NULL AND (dm = ANY($1) OR EXISTS (
    SELECT FROM choir_control.session_conversations AS c
    WHERE c.session_id = s.session_id AND c.dm = ANY($1)))
ORDER BY agent_id
"""
# Nobody sends these any more. What is being sent now is blanked after it.
_CANCEL_DELIVERIES = """
UPDATE choir_control.outbox SET status = 'undeliverable', finished_at = clock_timestamp()
WHERE (dm = ANY($1) OR copied_from = ANY($1)) AND status = 'waiting'
"""
_CLOSE_MESSAGES = """
UPDATE choir_control.inbox SET closed_at = clock_timestamp()
WHERE dm = ANY($1) AND closed_at IS NULL AND answered_rev IS NULL
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
JOIN choir_control.inbox AS i USING (inbox_id) WHERE i.dm = ANY($1)
"""
# In the order of the references between them.
_DELETE_FIRST = (
    *("received_files", "approval_nonces", "signals", "channel_messages"),
    *("pairing_requests", "paired_users"),
)


class PersonStore:
    """Store of everything that control's tables contain of DMs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_sessions(self, dms: Sequence[str]) -> list[ErasedSession]:
        """Return the sessions that have served these DMs, also beside others, oldest first."""
        rows = await self._database.fetch(_SESSIONS, list(dms))
        return [
            ErasedSession(
                session_id=row["session_id"],
                agent_id=row["agent_id"],
                events=row["head_rev"],
                head_hash=row["head_hash"],
            )
            for row in rows
        ]

    async def list_unfinished_agents(self, dms: Sequence[str]) -> list[str]:
        """Return the agents with a session that has served one of these DMs and has not ended."""
        return [row["agent_id"] for row in await self._database.fetch(_UNFINISHED, list(dms))]

    async def count_rows(self, dms: Sequence[str], session_ids: Sequence[str]) -> dict[str, int]:
        """Return the number of rows with text of DMs by table, without tables that have none."""
        counts: dict[str, int] = {}
        for table, place in PLACES.items():
            condition = _with_text(place)
            if condition is None:
                continue
            # both parameters must occur in the statement
            sql = (
                f"SELECT count(*) FROM choir_control.{table} AS t "  # noqa: S608 our own registry
                f"WHERE ({condition}) AND $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL"
            )
            count = int(await self._database.fetchval(sql, list(dms), list(session_ids)))
            if count:
                counts[table] = count
        return counts

    async def close_conversation(self, dms: Sequence[str], session_ids: Sequence[str]) -> None:
        """Cancel what waits in DMs, and let their ended sessions be erased at once."""
        async with self._database.transaction() as connection:
            await connection.execute(_CANCEL_DELIVERIES, list(dms))
            await connection.execute(_CLOSE_MESSAGES, list(dms))
            await connection.execute(_RELEASE, list(session_ids))

    async def count_unerased(self, session_ids: Sequence[str]) -> int:
        """Return how many of these sessions still have a log."""
        return int(await self._database.fetchval(_UNERASED, list(session_ids)))

    async def list_received_files(self, dms: Sequence[str]) -> list[tuple[str, str]]:
        """Return the workspaces and paths of files that were received in DMs."""
        return [
            (row["workspace"], row["path"]) for row in await self._database.fetch(_FILES, list(dms))
        ]

    async def erase_rows(self, dms: Sequence[str], session_ids: Sequence[str]) -> None:
        """Erase what is left of DMs after their sessions, in one transaction."""
        async with self._database.transaction() as connection:
            for table in _DELETE_FIRST:
                place = PLACES[table]
                assert isinstance(place, DeletedRows)
                sql = f"DELETE FROM choir_control.{table} AS t WHERE {_bound(place.rows)}"  # noqa: S608
                await connection.execute(sql, list(dms), list(session_ids))
            for table, place in PLACES.items():
                if isinstance(place, BlankedRows):
                    sql = (
                        f"UPDATE choir_control.{table} AS t SET {place.assignments} "  # noqa: S608
                        f"WHERE {_bound(place.rows)}"
                    )
                    await connection.execute(sql, list(dms), list(session_ids))


def _with_text(place: Place) -> str | None:
    match place:
        case DeletedRows():
            return place.rows
        case BlankedRows():
            return f"({place.rows}) AND ({place.has_text})"
    return None


def _bound(rows: str) -> str:
    """Return a condition that contains both parameters."""
    return f"({rows}) AND $1::text[] IS NOT NULL AND $2::text[] IS NOT NULL"


def subtract(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return what was removed, by table."""
    return {table: count - after.get(table, 0) for table, count in before.items()}
