"""Deletion of old rows from tables of completed records."""

from datetime import timedelta

from choir_common.postgres.pool import Database

# Rows are deleted only when nothing can change them any more. A conversation's newest row stays,
# because clients resume after its id.
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
# The signals and the files of a message are deleted before it.
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
# The requests of a live session stay: it looks them up again when it resumes after a crash.
_APPROVALS = """
WITH old AS (
    SELECT a.approval_id FROM choir_control.pending_approvals AS a
    JOIN choir_control.sessions AS s USING (session_id)
    WHERE a.status <> 'pending' AND a.resolved_at < clock_timestamp() - $1::interval
      AND s.ended_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM choir_control.approval_effects AS e
                      WHERE e.approval_id = a.approval_id
                        AND e.stage IN ('waiting', 'applying', 'reverting'))
    ORDER BY a.resolved_at LIMIT $2
), gone AS (
    -- its buttons and how it was carried out go with it (ON DELETE CASCADE)
    DELETE FROM choir_control.pending_approvals
    WHERE approval_id IN (SELECT approval_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
# Grants that cover no call any more.
_GRANTS = """
WITH old AS (
    SELECT g.grant_id FROM choir_control.grants AS g
    LEFT JOIN choir_control.sessions AS s USING (session_id)
    WHERE least(g.expires_at, g.revoked_at, CASE WHEN g.scope <> 'always' THEN
        coalesce(s.ended_at, CASE WHEN s.session_id IS NULL THEN g.granted_at END) END)
        < clock_timestamp() - $1::interval
    ORDER BY g.grant_id LIMIT $2
), gone AS (
    DELETE FROM choir_control.grants WHERE grant_id IN (SELECT grant_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_CONFIG_VERSIONS = """
WITH old AS (
    SELECT version FROM choir_control.config_versions
    WHERE read_at < clock_timestamp() - $1::interval AND version NOT IN (
        SELECT version FROM choir_control.config_versions ORDER BY version DESC LIMIT $3)
    ORDER BY version LIMIT $2
), gone AS (
    DELETE FROM choir_control.config_versions
    WHERE version IN (SELECT version FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
# An agent's newest session decides whether it is started again, so it stays. A session also stays
# while other tables refer to it; their rows have their own retention. So does a rehearsal that
# memory may still have to erase.
_SESSIONS = """
WITH old AS (
    SELECT s.session_id FROM choir_control.sessions AS s
    LEFT JOIN choir_control.erased_logs AS e USING (session_id)
    WHERE s.archived_at IS NOT NULL AND (NOT s.rehearsal OR s.forgotten_at IS NOT NULL)
      AND CASE WHEN s.head_rev = 0 THEN s.ended_at ELSE e.finished_at END
          < clock_timestamp() - $1::interval
      AND EXISTS (SELECT FROM choir_control.sessions AS later
                  WHERE later.agent_id = s.agent_id AND later.started_at > s.started_at)
      AND NOT EXISTS (SELECT FROM choir_control.session_events WHERE session_id = s.session_id)
      AND NOT EXISTS (SELECT FROM choir_control.pending_approvals WHERE session_id = s.session_id)
      AND NOT EXISTS (SELECT FROM choir_control.outbox WHERE session_id = s.session_id)
      AND NOT EXISTS (SELECT FROM choir_control.inbox WHERE session_id = s.session_id)
      AND NOT EXISTS (SELECT FROM choir_control.signals WHERE session_id = s.session_id)
      AND NOT EXISTS (SELECT FROM choir_control.leases WHERE session_id = s.session_id)
    ORDER BY s.started_at LIMIT $2
), gone AS (
    -- its hashes and its epochs go with it (ON DELETE CASCADE)
    DELETE FROM choir_control.sessions
    WHERE session_id IN (SELECT session_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_SCHEDULE_RUNS = """
WITH old AS (
    SELECT run_id FROM choir_control.schedule_runs
    WHERE ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2
), gone AS (
    DELETE FROM choir_control.schedule_runs WHERE run_id IN (SELECT run_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_SCHEDULES = """
WITH old AS (
    SELECT schedule_id FROM choir_control.schedules AS s
    WHERE state = 'ended' AND planned_at < clock_timestamp() - $1::interval
      AND NOT EXISTS (SELECT FROM choir_control.schedule_runs AS r WHERE r.schedule_id = s.schedule_id)
    LIMIT $2
), gone AS (
    DELETE FROM choir_control.schedules WHERE schedule_id IN (SELECT schedule_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_TRIGGER_DELIVERIES = """
WITH old AS (
    SELECT delivery_id FROM choir_control.trigger_deliveries
    WHERE ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2
), gone AS (
    DELETE FROM choir_control.trigger_deliveries
    WHERE delivery_id IN (SELECT delivery_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
_AGENT_QUESTIONS = """
WITH old AS (
    SELECT question_id FROM choir_control.agent_questions
    WHERE ended_at < clock_timestamp() - $1::interval ORDER BY ended_at LIMIT $2
), gone AS (
    DELETE FROM choir_control.agent_questions
    WHERE question_id IN (SELECT question_id FROM old) RETURNING 1
)
SELECT count(*) FROM gone
"""
KEEP_NEWEST_CONFIGS = 20
"""Versions of config.json that always stay; the newest one is in force."""


class ExpiredRowStore:
    """Deletion of old rows; each method deletes up to `limit` rows and returns how many."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def prune_outbox(self, keep: timedelta, limit: int) -> int:
        """Delete messages that were delivered or given up longer than `keep` ago."""
        return await self._prune(_OUTBOX, keep, limit)

    async def prune_inbox(self, keep: timedelta, limit: int) -> int:
        """Delete messages that arrived longer than `keep` ago and are answered or closed."""
        return await self._prune(_INBOX, keep, limit)

    async def prune_operations(self, keep: timedelta, limit: int) -> int:
        """Delete operations that ended longer than `keep` ago."""
        return await self._prune(_OPERATIONS, keep, limit)

    async def prune_epochs(self, keep: timedelta, limit: int) -> int:
        """Delete the epochs (with token digests) of sessions that ended longer than `keep` ago."""
        return await self._prune(_EPOCHS, keep, limit)

    async def prune_approvals(self, keep: timedelta, limit: int) -> int:
        """Delete requests of ended sessions that were decided, and carried out, longer than `keep` ago."""
        return await self._prune(_APPROVALS, keep, limit)

    async def prune_grants(self, keep: timedelta, limit: int) -> int:
        """Delete grants that expired, were revoked, or ended with their session longer than `keep` ago."""
        return await self._prune(_GRANTS, keep, limit)

    async def prune_config_versions(self, keep: timedelta, limit: int) -> int:
        """Delete configurations applied longer than `keep` ago, except the newest ones."""
        return await self._prune(_CONFIG_VERSIONS, keep, limit, KEEP_NEWEST_CONFIGS)

    async def prune_sessions(self, keep: timedelta, limit: int) -> int:
        """Delete ended sessions without a log for longer than `keep` that no other table refers to."""
        return await self._prune(_SESSIONS, keep, limit)

    async def prune_schedule_runs(self, keep: timedelta, limit: int) -> int:
        """Delete runs of schedules that ended longer than `keep` ago."""
        return await self._prune(_SCHEDULE_RUNS, keep, limit)

    async def prune_schedules(self, keep: timedelta, limit: int) -> int:
        """Delete schedules that ended longer than `keep` ago and have no runs."""
        return await self._prune(_SCHEDULES, keep, limit)

    async def prune_trigger_deliveries(self, keep: timedelta, limit: int) -> int:
        """Delete deliveries of triggers that ended longer than `keep` ago."""
        return await self._prune(_TRIGGER_DELIVERIES, keep, limit)

    async def prune_agent_questions(self, keep: timedelta, limit: int) -> int:
        """Delete questions between agents that ended longer than `keep` ago."""
        return await self._prune(_AGENT_QUESTIONS, keep, limit)

    async def _prune(self, sql: str, keep: timedelta, limit: int, *more: int) -> int:
        return int(await self._database.fetchval(sql, keep, limit, *more))
