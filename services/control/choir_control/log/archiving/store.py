"""The archiving state of sessions: which ones memory lacks, and from which revision on."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Database

# One session per agent, so that the sessions of an agent are written one after the other; ended
# sessions first, oldest first. An incognito session is never sent.
_DUE = """
SELECT DISTINCT ON (agent_id)
       session_id, agent_id, started_at, ended_at, head_rev, archived_rev, archive_tries
FROM choir_control.sessions
WHERE archived_at IS NULL AND memory_mode <> 'incognito'
  AND (archive_due_at IS NULL OR archive_due_at <= clock_timestamp())
  AND (ended_at IS NOT NULL OR head_rev - archived_rev >= $1)
ORDER BY agent_id, (ended_at IS NULL), started_at, session_id
LIMIT $2
"""
_PROGRESS = """ UPDATE choir_control.sessions SET archived_rev = $2, archive_tries = 0, archive_error =
NULL, archive_due_at = NULL WHERE session_id = $1
"""
_DONE = """ UPDATE choir_control.sessions SET archived_at = clock_timestamp() WHERE session_id = $1 AND
ended_at IS NOT NULL
"""
_POSTPONE = """
UPDATE choir_control.sessions SET archive_tries = archive_tries + 1, archive_error = $2,
    archive_due_at = clock_timestamp() + make_interval(secs => $3)
WHERE session_id = $1
"""
# A session that ended a moment ago is expected to wait, so it is not reported.
_WAITING = """
SELECT count(*) AS sessions, max(archive_error) AS error FROM choir_control.sessions
WHERE archived_at IS NULL AND memory_mode <> 'incognito'
  AND (archive_tries > 0 OR ended_at < clock_timestamp() - interval '1 minute')
"""


@dataclass(frozen=True, slots=True)
class PendingSession:
    """A session with events that memory lacks."""

    session_id: str
    agent_id: str
    started_at: datetime
    ended_at: datetime | None
    head_rev: int
    archived_rev: int
    tries: int


class ArchiveStore:
    """Store of the archiving columns of the table `sessions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pending(self, behind: int, limit: int) -> Sequence[PendingSession]:
        """Return sessions to archive: ended ones, and live ones with at least `behind` pending events."""
        rows = await self._database.fetch(_DUE, behind, limit)
        return [PendingSession(*row.values()) for row in rows]

    async def describe_backlog(self) -> str:
        """Return how many sessions have waited too long for memory, and why; empty if none."""
        row = await self._database.fetchrow(_WAITING)
        assert row is not None
        count = row["sessions"]
        if not count:
            return ""
        sessions = "1 session waits" if count == 1 else f"{count} sessions wait"
        return f"{sessions} to be archived" + (f" ({row['error']})" if row["error"] else "")

    async def set_progress(self, session_id: str, through_rev: int) -> None:
        """Store the last revision that memory has, and clear the retry state."""
        await self._database.execute(_PROGRESS, session_id, through_rev)

    async def mark_archived(self, session_id: str) -> None:
        """Store that memory has the whole session."""
        await self._database.execute(_DONE, session_id)

    async def postpone(self, session_id: str, error: str, wait_s: float) -> None:
        """Store an error and retry after `wait_s` seconds."""
        await self._database.execute(
            _POSTPONE, session_id, error[:1000].replace("\x00", ""), wait_s
        )
