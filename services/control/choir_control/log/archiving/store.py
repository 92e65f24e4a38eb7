"""The archiving state of sessions: which ones memory lacks, and from which revision on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import orjson

from choir_common.i18n import ngettext
from choir_common.postgres.pool import Database
from choir_control.log.leases.conversations import served_conversations_sql

MAX_WAIT_FACTOR = 3
"""A session that is never quiet settles when its oldest pending event is this many quiet times old."""
# A subquery, not a join: the planner would read all events of each session.
_STORED_AT = """
(SELECT e.stored_at FROM choir_control.session_events AS e
 WHERE e.session_id = s.session_id AND e.rev = {})
"""
# Times are those of the database. A session settles only with new events, so that it is not sent again.
_SETTLING = f"""
SELECT s.session_id FROM choir_control.sessions AS s
CROSS JOIN make_interval(secs => COALESCE(($3::jsonb ->> s.agent_id)::float8, $4)) AS quiet_time
WHERE s.archived_at IS NULL AND s.ended_at IS NULL AND s.memory_mode <> 'incognito'
  AND s.head_rev > s.archived_rev
  AND ({_STORED_AT.format("s.head_rev")} <= clock_timestamp() - quiet_time
       OR {_STORED_AT.format("s.archived_rev + 1")} <= clock_timestamp() - {MAX_WAIT_FACTOR} * quiet_time)
"""  # noqa: S608 a constant
# One session per agent, so that the sessions of an agent are written one after the other; ended
# sessions first, oldest first. An incognito session is never sent.
_DUE = f"""
WITH settling AS ({_SETTLING})
SELECT DISTINCT ON (agent_id)
       session_id, agent_id, started_at, ended_at, head_rev, archived_rev, archive_tries,
       session_id IN (SELECT session_id FROM settling) AS settles, dm,
       {served_conversations_sql("sessions")} AS served_dms
FROM choir_control.sessions
WHERE archived_at IS NULL AND memory_mode <> 'incognito'
  AND (archive_due_at IS NULL OR archive_due_at <= clock_timestamp())
  AND (ended_at IS NOT NULL OR head_rev - archived_rev >= $1
       OR session_id IN (SELECT session_id FROM settling))
ORDER BY agent_id, (ended_at IS NULL), started_at, session_id
LIMIT $2
"""  # noqa: S608 a statement of ours
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
    settles: bool
    """Whether a live session is quiet, or has waited so long that all of it is sent."""
    home_dm: str
    served_dms: Sequence[str]
    """All conversations that the agent's sessions have ever served."""


@dataclass(frozen=True, slots=True)
class QuietTimes:
    """Seconds without events after which a live session settles."""

    by_agent: Mapping[str, float]
    default: float


class ArchiveStore:
    """Store of the archiving columns of the table `sessions`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_pending(
        self, behind: int, limit: int, quiet_times: QuietTimes
    ) -> Sequence[PendingSession]:
        """Return sessions to archive: ended ones, and live ones that settle or have at least `behind`
        pending events."""
        by_agent = orjson.dumps(dict(quiet_times.by_agent)).decode()
        rows = await self._database.fetch(_DUE, behind, limit, by_agent, quiet_times.default)
        return [PendingSession(*row.values()) for row in rows]

    async def describe_backlog(self) -> str:
        """Return how many sessions have waited too long for memory, and why; empty if none."""
        row = await self._database.fetchrow(_WAITING)
        assert row is not None
        if not row["sessions"]:
            return ""
        sessions = ngettext(
            "{count} session waits to be archived",
            "{count} sessions wait to be archived",
            row["sessions"],
        )
        return f"{sessions}: {row['error']}" if row["error"] else sessions

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
