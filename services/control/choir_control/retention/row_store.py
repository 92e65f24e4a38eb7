"""Delete old rows of `inbox`, `outbox`, `operations` and `session_epochs`. Called by `job`."""

from datetime import timedelta

from choir_common.postgres.pool import Database

# Rows go only when nothing can still happen to them. The newest row of a conversation stays, because readers
# go on after it.
_OUTBOX = """
WITH old AS (
    SELECT outbox_id FROM choir_control.outbox AS o
    WHERE finished_at < clock_timestamp() - $1::interval
      AND status IN ('delivered', 'undeliverable')
      AND EXISTS (SELECT FROM choir_control.outbox AS newer
                  WHERE newer.dm = o.dm AND newer.outbox_id > o.outbox_id)
      AND NOT EXISTS (SELECT FROM choir_control.outbox AS edit WHERE edit.edits = o.outbox_id)
      AND NOT EXISTS (SELECT FROM choir_control.pending_approvals AS a
                      WHERE a.notice_id = o.outbox_id AND a.status = 'pending')
    ORDER BY outbox_id LIMIT $2
), gone AS (
    DELETE FROM choir_control.outbox WHERE outbox_id IN (SELECT outbox_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
# A signal of such a message is done and goes before it. Its files are tidied away before it, too.
_INBOX = """
WITH old AS (
    SELECT inbox_id FROM choir_control.inbox AS i
    WHERE received_at < clock_timestamp() - $1::interval
      AND (answered_rev IS NOT NULL OR closed_at IS NOT NULL)
      AND NOT EXISTS (SELECT FROM choir_control.signals AS s WHERE s.inbox_id = i.inbox_id)
      AND NOT EXISTS (SELECT FROM choir_control.received_files AS f WHERE f.inbox_id = i.inbox_id)
    ORDER BY seq LIMIT $2
), gone AS (
    DELETE FROM choir_control.inbox WHERE inbox_id IN (SELECT inbox_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_OPERATIONS = """
WITH old AS (
    SELECT operation_id FROM choir_control.operations
    WHERE ended_at < clock_timestamp() - $1::interval ORDER BY began_at LIMIT $2
), gone AS (
    DELETE FROM choir_control.operations
    WHERE operation_id IN (SELECT operation_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_EPOCHS = """
WITH old AS (
    SELECT e.session_id, e.epoch FROM choir_control.session_epochs AS e
    JOIN choir_control.sessions AS s USING (session_id)
    WHERE s.ended_at < clock_timestamp() - $1::interval LIMIT $2
), gone AS (
    DELETE FROM choir_control.session_epochs AS e USING old
    WHERE e.session_id = old.session_id AND e.epoch = old.epoch RETURNING 1
)
SELECT count(*) FROM gone
"""


class RowStore:
    """Tables whose old rows nobody needs: each method deletes up to `limit` and returns how many."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prune_outbox(self, keep: timedelta, limit: int) -> int:
        """Delete messages that were delivered, or given up, longer than `keep` ago."""
        return await self._prune(_OUTBOX, keep, limit)

    async def prune_inbox(self, keep: timedelta, limit: int) -> int:
        """Delete messages that came longer than `keep` ago and are answered or closed."""
        return await self._prune(_INBOX, keep, limit)

    async def prune_operations(self, keep: timedelta, limit: int) -> int:
        """Delete operations that ended longer than `keep` ago."""
        return await self._prune(_OPERATIONS, keep, limit)

    async def prune_epochs(self, keep: timedelta, limit: int) -> int:
        """Delete the digests of tokens of sessions that ended longer than `keep` ago."""
        return await self._prune(_EPOCHS, keep, limit)

    async def _prune(self, sql: str, keep: timedelta, limit: int) -> int:
        return int(await self._database.fetchval(sql, keep, limit))
