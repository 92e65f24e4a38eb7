"""Statements that end a session (token, leases, signals, messages, the notice to the user) or find an idle
one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import orjson

from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database
from choir_common.wire.events import Event, SessionAbandoned
from choir_common.wire.operator import SessionStatus
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import COLUMNS, session_from_record
from choir_control.log.leases.conversations import conversations_sql, gateway_sql

_END = f"""
WITH head AS (
    UPDATE choir_control.sessions SET
        status = $5, end_reason = $6, ended_at = clock_timestamp(), token_sha256 = NULL,
        resume_at = NULL, epoch = epoch + cardinality($7::bigint[]),
        head_rev = COALESCE($7[1], head_rev), head_hash = COALESCE($8, head_hash)
    WHERE session_id = $1 AND epoch = $2 AND head_rev = $3 AND head_hash = $4
      AND status IN ('starting', 'active', 'stopping', 'crashed')
    RETURNING session_id, agent_id, dm, gateway
), freed AS (
    DELETE FROM choir_control.leases AS l USING head WHERE l.session_id = head.session_id
), stored AS (
    INSERT INTO choir_control.session_events
        (session_id, rev, lane, type, payload, at, hash_prev, hash, signature)
    SELECT head.session_id, rev, $9, $10, $11::json, $12, $4, $8, $15
    FROM head, unnest($7::bigint[]) AS rev
), closed AS (
    UPDATE choir_control.inbox AS i SET closed_at = clock_timestamp()
    FROM head WHERE i.inbox_id = ANY($13::text[])
), done AS (
    UPDATE choir_control.signals AS s SET done_at = clock_timestamp()
    FROM head WHERE s.done_at IS NULL
      AND (s.session_id = head.session_id OR s.inbox_id = ANY($13::text[]))
), said AS (
    INSERT INTO choir_control.outbox
        (dm, gateway, agent_id, session_id, rev, kind, text, answers, at)
    SELECT $16::text, {gateway_sql("head", "$16::text")}, head.agent_id, head.session_id, rev, 'error', $14,
           $17::text, clock_timestamp()
    FROM head, unnest($7::bigint[]) AS rev
), told AS (
    INSERT INTO choir_control.outbox (dm, gateway, agent_id, kind, text, at)
    SELECT t.dm, {gateway_sql("head", "t.dm")}, 'choir', 'notice', t.text, clock_timestamp()
    FROM head, unnest($18::text[], $19::text[]) AS t(dm, text)
)
SELECT true FROM head
"""  # noqa: S608 our own SQL
_UNANSWERED = f"""
SELECT {{column}} FROM choir_control.inbox AS i
WHERE i.closed_at IS NULL AND i.answered_rev IS NULL
  AND (i.session_id = s.session_id
       OR ($2 AND i.session_id IS NULL AND i.dm = ANY({conversations_sql("s")})))
ORDER BY i.seq
"""  # noqa: S608 our own SQL
# A session without a message of its user is not ended: it would only be replaced by another empty one.
# The times are those of the database.
_IDLE = f"""
SELECT {COLUMNS} FROM choir_control.sessions AS s
WHERE s.agent_id = $1 AND s.status = 'active'
  AND EXISTS (SELECT FROM choir_control.session_events AS newest
              WHERE newest.session_id = s.session_id AND newest.rev = s.head_rev
                AND newest.stored_at <= clock_timestamp() - $2::interval)
  AND EXISTS (SELECT FROM choir_control.session_events AS e
              WHERE e.session_id = s.session_id AND e.type = 'user_msg')
  AND NOT EXISTS (SELECT FROM choir_control.inbox AS i
                  WHERE i.closed_at IS NULL AND i.answered_rev IS NULL
                    AND (i.session_id = s.session_id
                         OR (i.session_id IS NULL AND i.dm = ANY({conversations_sql("s")}))))
  AND NOT EXISTS (SELECT FROM choir_control.outbox AS o
                  WHERE o.dm = ANY({conversations_sql("s")}) AND o.status IN ('waiting', 'sending'))
  -- the agent may not have read a decision yet
  AND NOT EXISTS (SELECT FROM choir_control.pending_approvals AS a
                  WHERE a.session_id = s.session_id
                    AND (a.status = 'pending' OR a.resolved_at > clock_timestamp() - $2::interval))
  AND NOT EXISTS (SELECT FROM choir_control.session_events AS started
                  WHERE started.session_id = s.session_id AND started.type = 'core_started'
                    AND NOT EXISTS (SELECT FROM choir_control.session_events AS ended
                                    WHERE ended.session_id = s.session_id AND ended.type = 'core_stopped'
                                      AND ended.payload ->> 'job_id' = started.payload ->> 'job_id'))
"""  # noqa: S608 our own column names


@dataclass(frozen=True, slots=True)
class ClosingSnapshot:
    """A session with the messages that would stay without a reply if it ended now."""

    session: SessionRow
    unanswered: tuple[str, ...]
    unanswered_dms: tuple[str, ...]
    """The conversation of each of these messages."""
    further_dms: tuple[str, ...]
    """The conversations beside its home conversation."""
    last_event: str | None
    """Type of its newest event."""

    def count_in(self, dm: str) -> int:
        """Return how many messages of a conversation have no reply."""
        return self.unanswered_dms.count(dm)

    def first_unanswered_in(self, dm: str) -> str | None:
        """Return the first message of a conversation that has no reply, or None."""
        pairs = zip(self.unanswered, self.unanswered_dms, strict=True)
        return next((inbox_id for inbox_id, of in pairs if of == dm), None)


class ClosingStore:
    """Store operations that end a session."""

    def __init__(self, database: Database, keyring: AuditKeyring) -> None:
        self._database = database
        self._keyring = keyring

    async def load(self, session_id: str, *, with_waiting: bool) -> ClosingSnapshot | None:
        """Return the session and its unanswered messages; `with_waiting` adds those not consumed yet."""
        record = await self._database.fetchrow(
            f"""
            SELECT {COLUMNS}, ARRAY({_UNANSWERED.format(column="i.inbox_id")}) AS unanswered,
            ARRAY({_UNANSWERED.format(column="i.dm")}) AS unanswered_dms,
            ARRAY(SELECT c.dm FROM choir_control.session_conversations AS c
                  WHERE c.session_id = s.session_id AND c.unbound_at IS NULL ORDER BY c.dm) AS further_dms, (
                SELECT e.type FROM choir_control.session_events AS e
                WHERE e.session_id = s.session_id AND e.rev = s.head_rev
            ) AS last_event
            FROM choir_control.sessions AS s WHERE s.session_id = $1
            """,  # noqa: S608 our own column names
            session_id,
            with_waiting,
        )
        if record is None:
            return None
        return ClosingSnapshot(
            session=session_from_record(record),
            unanswered=tuple(record["unanswered"]),
            unanswered_dms=tuple(record["unanswered_dms"]),
            further_dms=tuple(record["further_dms"]),
            last_event=record["last_event"],
        )

    async def end(
        self,
        snapshot: ClosingSnapshot,
        status: SessionStatus,
        reason: str,
        final_event: tuple[Event, SessionAbandoned] | None,
        user_text: str,
        notices: Mapping[str, str],
    ) -> bool:
        """End the session; return False if its epoch, head or status changed since it was read.

        `final_event` is the event, with its message to the user, that control appends under a fresh epoch.
        `user_text` is that message in the user's language. `notices` are the texts for other conversations.
        """
        session = snapshot.session
        event, payload = final_event or (None, None)
        is_ended = await self._database.fetchval(
            _END,
            session.session_id,
            session.epoch,
            session.head.rev,
            session.head.hash,
            status,
            reason.replace("\x00", "")[:1000],
            [event.rev] if event else [],
            event.hash if event else None,
            event.lane if event else None,
            event.type if event else None,
            orjson.dumps(event.payload, option=orjson.OPT_SORT_KEYS).decode() if event else None,
            event.at if event else None,
            list(payload.answers) if payload else [],
            user_text if payload else None,
            self._sign(event) if event else None,
            payload.dm if payload else None,
            snapshot.first_unanswered_in(payload.dm) if payload else None,
            list(notices),
            list(notices.values()),
        )
        return bool(is_ended)

    def _sign(self, event: Event) -> bytes:
        return self._keyring.sign_event(event.session_id, event.rev, event.hash)

    async def find_idle(self, agent_id: str, idle_time: timedelta) -> SessionRow | None:
        """Return the agent's running session if nothing happened in it for `idle_time` and nothing is
        open, or None."""
        record = await self._database.fetchrow(_IDLE, agent_id, idle_time)
        return session_from_record(record) if record else None
