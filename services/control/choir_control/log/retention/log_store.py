"""Erasure of an ended session's log and messages; the hashes of its events stay."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from choir_common.eventlog.chain import LogHead
from choir_common.eventlog.signature import NO_SIGNATURE
from choir_common.postgres.pool import Database, Record

MAX_SESSIONS = 100
"""Sessions of one agent, or of all deleted agents, in one sweep."""

# Conditions: memory has the whole session. Its received files were deleted, since their age is
# computed from an event of the log. If it is a rehearsal, memory has erased what it wrote; the log
# lists that.
_OLD = """
SELECT s.session_id, s.agent_id, s.head_rev, s.head_hash, e.session_id IS NOT NULL AS has_hashes
FROM choir_control.sessions AS s
LEFT JOIN choir_control.erased_logs AS e USING (session_id)
WHERE s.ended_at < clock_timestamp() - $2::interval
  AND s.archived_at IS NOT NULL AND s.head_rev > 0 AND e.finished_at IS NULL
  AND (NOT s.rehearsal OR s.forgotten_at IS NOT NULL)
  AND NOT EXISTS (
      SELECT FROM choir_control.received_files AS f JOIN choir_control.inbox AS i USING (inbox_id)
      WHERE i.session_id = s.session_id)
"""
# A later session has user messages, so the next start does not continue this one. Incognito sessions
# do not count: the session after them continues the one before.
_DUE = f"""{_OLD}
  AND s.agent_id = $1 AND EXISTS (
      SELECT FROM choir_control.sessions AS later
      JOIN choir_control.session_events AS said ON said.session_id = later.session_id
      WHERE later.agent_id = s.agent_id AND later.started_at > s.started_at
        AND later.rehearsal = s.rehearsal AND later.memory_mode <> 'incognito'
        AND said.type = 'user_msg')
ORDER BY s.started_at LIMIT $3
"""
_DUE_WITHOUT_AGENT = f"{_OLD} AND s.agent_id <> ALL ($1::text[]) ORDER BY s.started_at LIMIT $3"
_KEEP_HASHES = """
INSERT INTO choir_control.erased_logs (session_id, hashes, signatures)
SELECT session_id, string_agg(decode(hash, 'hex'), ''::bytea ORDER BY rev),
    string_agg(coalesce(signature, $2), ''::bytea ORDER BY rev)
FROM choir_control.session_events WHERE session_id = $1 GROUP BY session_id
ON CONFLICT (session_id) DO NOTHING
"""
_ERASE_EVENTS = """
DELETE FROM choir_control.session_events WHERE session_id = $1 AND rev IN (
    SELECT rev FROM choir_control.session_events WHERE session_id = $1 ORDER BY rev LIMIT $2)
"""
_ERASE_SIGNALS = """
DELETE FROM choir_control.signals AS s WHERE s.session_id = $1
    OR s.inbox_id IN (SELECT inbox_id FROM choir_control.inbox WHERE session_id = $1)
"""
# Messages that are undelivered, or edited by a later message, are deleted at their own age.
_ERASE_OUTBOX = """
DELETE FROM choir_control.outbox AS o
WHERE o.session_id = $1 AND o.status IN ('delivered', 'undeliverable')
  AND NOT EXISTS (SELECT FROM choir_control.outbox AS edit WHERE edit.edits = o.outbox_id)
  AND EXISTS (SELECT FROM choir_control.outbox AS newer
              WHERE newer.dm = o.dm AND newer.outbox_id > o.outbox_id)
"""
_ERASE_INBOX = "DELETE FROM choir_control.inbox WHERE session_id = $1"
_FINISH = """
UPDATE choir_control.erased_logs SET finished_at = clock_timestamp() WHERE session_id = $1
"""


@dataclass(frozen=True, slots=True)
class ExpiredLog:
    """A log that is older than its agent's retention."""

    session_id: str
    agent_id: str
    head: LogHead
    has_hashes: bool
    """The hashes are stored already: an earlier sweep was interrupted."""


class ErasedLogStore:
    """Store of the table `erased_logs`, with the erasure of a session's data."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self, agent_id: str, keep: timedelta) -> list[ExpiredLog]:
        """Return the agent's sessions that ended longer than `keep` ago and have a log, oldest first."""
        return _due(await self._database.fetch(_DUE, agent_id, keep, MAX_SESSIONS))

    async def list_expired_without_agent(
        self, configured: Iterable[str], keep: timedelta
    ) -> list[ExpiredLog]:
        """Return such sessions of agents outside `configured`, including the newest of each agent."""
        rows = await self._database.fetch(_DUE_WITHOUT_AGENT, list(configured), keep, MAX_SESSIONS)
        return _due(rows)

    async def store_hashes(self, session_id: str) -> None:
        """Store the hashes and signatures of a log; from then on it counts as erased."""
        await self._database.execute(_KEEP_HASHES, session_id, NO_SIGNATURE)

    async def erase_batch(self, session_id: str, limit: int) -> None:
        """Delete the oldest `limit` events of a log."""
        await self._database.execute(_ERASE_EVENTS, session_id, limit)

    async def finish(self, session_id: str) -> None:
        """Delete the session's signals and messages, and mark the log as erased completely."""
        async with self._database.transaction() as connection:
            for sql in (_ERASE_SIGNALS, _ERASE_OUTBOX, _ERASE_INBOX, _FINISH):
                await connection.execute(sql, session_id)


def _due(rows: Sequence[Record]) -> list[ExpiredLog]:
    return [
        ExpiredLog(
            row["session_id"],
            row["agent_id"],
            LogHead(row["head_rev"], row["head_hash"]),
            row["has_hashes"],
        )
        for row in rows
    ]
