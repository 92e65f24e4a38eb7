"""Store of the table `session_resets`: sessions whose conversation a person had erased.

A row decides what the next session copies of this one, and has its content erased before its age would.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from choir_common.postgres.pool import Database
from choir_common.wire.memory_forget import ConversationMessage
from choir_control.log.retention.content_store import (
    HAS_COPIED_SQL,
    ErasableSession,
    erasable_from_record,
)
from choir_control.log.retention.log_store import MAX_SESSIONS

MAX_MESSAGES = 20
"""Messages of a conversation in a preview."""
Carries = Literal["nothing", "summary", "rest"]
"""What the next session copies: nothing, the reference summary, or all but the forgotten period."""

# A later request replaces an earlier one only if it leaves less.
_PUT = """
INSERT INTO choir_control.session_resets AS r (session_id, carries, since, until)
VALUES ($1, $2, $3, $4)
ON CONFLICT (session_id) DO UPDATE
SET carries = excluded.carries, requested_at = clock_timestamp(),
    since = CASE WHEN r.since IS NOT NULL AND excluded.since IS NOT NULL
                 THEN least(r.since, excluded.since) END,
    until = CASE WHEN r.until IS NOT NULL AND excluded.until IS NOT NULL
                 THEN greatest(r.until, excluded.until) END
WHERE r.carries = 'rest' OR excluded.carries = 'nothing'
"""
_GET = "SELECT carries, since, until FROM choir_control.session_resets WHERE session_id = $1"
# A log is needed until memory has acknowledged the session, and the next session has copied what it may. The
# log of a rehearsal lists the documents that memory must still erase, unless all of it is erased.
_DUE = f"""
SELECT s.session_id, s.agent_id, s.workspace, s.head_rev, s.head_hash, e.session_id IS NOT NULL AS has_hashes
FROM choir_control.session_resets AS r JOIN choir_control.sessions AS s USING (session_id)
LEFT JOIN choir_control.erased_logs AS e USING (session_id)
WHERE r.finished_at IS NULL AND s.ended_at IS NOT NULL AND s.archived_at IS NOT NULL AND s.head_rev > 0
  AND e.finished_at IS NULL
  AND (NOT s.rehearsal OR s.forgotten_at IS NOT NULL OR r.carries = 'nothing' OR NOT EXISTS (
      SELECT FROM choir_control.session_events AS written
      WHERE written.session_id = s.session_id AND written.type = 'memory_write_committed'))
  AND (r.carries = 'nothing' OR EXISTS (
      SELECT FROM choir_control.sessions AS later
      WHERE later.continues = s.session_id AND later.head_rev > 0
        AND (r.carries = 'summary' OR {HAS_COPIED_SQL})))
ORDER BY s.started_at LIMIT $1
"""  # noqa: S608 a condition of ours
# the events of an earlier session that this one shows are copied at its beginning
_LAST_REV_BEFORE = """
SELECT max(rev) FROM choir_control.session_events
WHERE session_id = $1 AND (at::timestamptz < $2 OR type IN ('session_started', 'carried_event'))
"""
_OVERLAPPING = """
SELECT s.session_id FROM choir_control.sessions AS s
WHERE s.agent_id = $1 AND s.head_rev > 0
  AND ($2::timestamptz IS NULL OR coalesce(s.ended_at, 'infinity') >= $2)
  AND ($3::timestamptz IS NULL OR s.started_at < $3)
  AND NOT EXISTS (SELECT FROM choir_control.erased_logs AS e
                  WHERE e.session_id = s.session_id AND e.finished_at IS NOT NULL)
ORDER BY s.started_at
"""
_COPIES_FROM_PERIOD = """
SELECT EXISTS (
    SELECT FROM choir_control.session_events
    WHERE session_id = $1 AND type = 'carried_event'
      AND ($2::timestamptz IS NULL OR (payload ->> 'at')::timestamptz >= $2)
      AND ($3::timestamptz IS NULL OR (payload ->> 'at')::timestamptz < $3))
"""
_HAS_BEGUN = """
SELECT EXISTS (SELECT FROM choir_control.session_events
               WHERE session_id = $1 AND type NOT IN ('session_started', 'carried_event'))
"""
_MESSAGES = """
SELECT at::timestamptz AS at, CASE type WHEN 'user_msg' THEN 'user' ELSE 'agent' END AS sender,
       left(coalesce(payload ->> 'text', ''), 200) AS text, count(*) OVER () AS message_count
FROM choir_control.session_events
WHERE session_id = $1 AND type IN ('user_msg', 'reply')
  AND ($2::timestamptz IS NULL OR at::timestamptz >= $2)
  AND ($3::timestamptz IS NULL OR at::timestamptz < $3)
ORDER BY rev DESC LIMIT $4
"""
# memory may know a session from an import of another agent's memory
_OWN = """
SELECT session_id FROM choir_control.sessions
WHERE agent_id = $1 AND session_id = ANY($2::text[]) AND head_rev > 0
  AND session_id NOT IN (SELECT session_id FROM choir_control.erased_logs WHERE finished_at IS NOT NULL)
ORDER BY started_at
"""
_SUMMARY_CHARS = """
SELECT coalesce((
    SELECT length(coalesce(payload -> 'summary' ->> 'summary', payload #>> '{seed,0,summary,summary}', ''))
    FROM choir_control.session_events
    WHERE session_id = $1 AND (type = 'session_started'
        OR (type = 'memory_compacted' AND payload ->> 'target' = 'edge'
            AND coalesce(payload ->> 'failed', '') = ''))
    ORDER BY rev DESC LIMIT 1), 0)
"""


@dataclass(frozen=True, slots=True)
class SessionReset:
    """What the next session may copy of a session; the period is that of `rest`."""

    carries: Carries
    since: datetime | None = None
    until: datetime | None = None

    def forgets(self, at: datetime) -> bool:
        """Return whether something that happened then belongs to the forgotten period."""
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


class SessionResetStore:
    """Store of the table `session_resets`, and of what a reset needs to know about logs."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def put(self, session_id: str, reset: SessionReset) -> None:
        """Store a reset; one that leaves less replaces an earlier one."""
        await self._database.execute(_PUT, session_id, reset.carries, reset.since, reset.until)

    async def get(self, session_id: str) -> SessionReset | None:
        """Return the reset of a session, or None."""
        row = await self._database.fetchrow(_GET, session_id)
        return None if row is None else SessionReset(row["carries"], row["since"], row["until"])

    async def list_due(self) -> list[ErasableSession]:
        """Return the reset sessions whose content nothing needs any more, oldest first."""
        rows = await self._database.fetch(_DUE, MAX_SESSIONS)
        return [erasable_from_record(row) for row in rows]

    async def find_last_rev_before(self, session_id: str, at: datetime) -> int:
        """Return the last revision before a time, copies from earlier sessions included; 0 if none."""
        return int(await self._database.fetchval(_LAST_REV_BEFORE, session_id, at) or 0)

    async def list_overlapping(
        self, agent_id: str, since: datetime | None, until: datetime | None
    ) -> list[str]:
        """Return the sessions of an agent that lasted into this period and have a log, oldest first."""
        rows = await self._database.fetch(_OVERLAPPING, agent_id, since, until)
        return [row["session_id"] for row in rows]

    async def list_messages(
        self, session_id: str, reset: SessionReset
    ) -> tuple[list[ConversationMessage], int]:
        """Return the newest messages that a reset erases, oldest first, and the number of all."""
        rows = await self._database.fetch(
            _MESSAGES, session_id, reset.since, reset.until, MAX_MESSAGES
        )
        messages = [
            ConversationMessage(at=row["at"], sender=row["sender"], text=row["text"])
            for row in reversed(rows)
        ]
        return messages, rows[0]["message_count"] if rows else 0

    async def list_own(self, agent_id: str, session_ids: Collection[str]) -> list[str]:
        """Return which of these sessions are the agent's own and have a log, oldest first."""
        rows = await self._database.fetch(_OWN, agent_id, list(session_ids))
        return [row["session_id"] for row in rows]

    async def has_copies_from(
        self, session_id: str, since: datetime | None, until: datetime | None
    ) -> bool:
        """Return whether a session begins with copies of events of this period."""
        return bool(await self._database.fetchval(_COPIES_FROM_PERIOD, session_id, since, until))

    async def has_begun(self, session_id: str) -> bool:
        """Return whether a session has copied what it continues, and has events of its own."""
        return bool(await self._database.fetchval(_HAS_BEGUN, session_id))

    async def count_summary_chars(self, session_id: str) -> int:
        """Return the length of a session's reference summary."""
        return int(await self._database.fetchval(_SUMMARY_CHARS, session_id))
