"""The table `session_events`: one statement appends, in one round trip, all or nothing.

The statement compares and sets the session's head, with epoch and token as further conditions. All
its other changes depend on that row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.eventlog.chain import LogHead, event_from_row
from choir_common.eventlog.signature import AuditKeyring
from choir_common.postgres.pool import Database, Record
from choir_common.wire.events import Event, ReplyKind
from choir_common.wire.messages import OutboundMessage
from choir_control.log.eventlog.batch import EventBatch, OutgoingReply
from choir_control.log.leases.conversations import answered_conversations_sql, gateway_sql
from choir_control.log.leases.store import Lease
from choir_control.money.ledger_store import (
    charge_ctes,
    charge_rows,
    dump_grants,
    dump_rows,
    grant_ctes,
)
from choir_control.workspaces.spool import dump_files, make_attachments

# The parameters with the rows of the ledger and of grants, as JSON.
_CHARGES, _GRANTS, _GROUP_CHARGES = 27, 28, 17
COPY_KIND: ReplyKind = "message"
"""The kind of a copy for a conversation that follows: it answers nothing there."""
# An inbox row can be updated only once per statement, so one CTE marks it as taken up and as
# answered.
_APPEND_EFFECTS = f"""
WITH head AS (
    UPDATE choir_control.sessions SET
        head_rev = $6, head_hash = $7, last_heartbeat_at = clock_timestamp(),
        resumes = CASE WHEN $8 THEN 0 ELSE resumes END,
        idle_resumes = CASE WHEN array_remove($17::bigint[], NULL) = '{{}}' THEN idle_resumes ELSE 0 END
    WHERE session_id = $1 AND epoch = $2 AND token_sha256 = $3
      AND head_rev = $4 AND head_hash = $5
      AND status IN ('starting', 'active', 'stopping')
    RETURNING session_id, agent_id, dm, gateway
), stored AS (
    INSERT INTO choir_control.session_events
        (session_id, rev, lane, type, payload, at, hash_prev, hash, signature)
    SELECT head.session_id, e.*
    FROM head, unnest($9::bigint[], $10::text[], $11::text[], $12::json[], $13::text[],
                      $14::text[], $15::text[], $29::bytea[]) AS e
), marked AS (
    UPDATE choir_control.inbox AS i SET
        session_id = CASE WHEN m.consumed IS NULL THEN i.session_id ELSE head.session_id END,
        consumed_rev = COALESCE(i.consumed_rev, m.consumed),
        answered_rev = COALESCE(i.answered_rev, m.answered)
    FROM head, unnest($16::text[], $17::bigint[], $18::bigint[]) AS m(inbox_id, consumed, answered)
    WHERE i.inbox_id = m.inbox_id AND i.dm = ANY({answered_conversations_sql("head")})
      AND (i.session_id IS NULL OR i.session_id = head.session_id)
), done AS (
    UPDATE choir_control.signals AS s SET done_at = clock_timestamp()
    FROM head, unnest($16::text[], $17::bigint[]) AS m(inbox_id, consumed)
    WHERE s.inbox_id = m.inbox_id AND s.dm = ANY({answered_conversations_sql("head")})
      AND m.consumed IS NOT NULL AND s.done_at IS NULL
), obeyed AS (
    UPDATE choir_control.signals AS s SET done_at = clock_timestamp()
    FROM head WHERE s.session_id = head.session_id AND s.done_at IS NULL
      AND (s.seq = ANY($24::bigint[]) OR s.body ->> 'approval_id' = ANY($25::text[]))
), said AS (
    INSERT INTO choir_control.outbox
        (dm, gateway, agent_id, session_id, rev, kind, text, answers, at, files)
    SELECT r.dm, {gateway_sql("head", "r.dm")}, head.agent_id, head.session_id, r.rev, r.kind, r.text,
        r.answers, r.at, r.files
    FROM head, unnest($19::bigint[], $20::text[], $21::text[], $22::text[], $23::timestamptz[], $26::json[],
                      $30::text[]) AS r(rev, kind, text, answers, at, files, dm)
    ORDER BY r.rev
    RETURNING outbox_id, rev, dm, gateway
), {charge_ctes(_CHARGES)}, {grant_ctes(_GRANTS)}"""  # noqa: S608 - constants only
_APPEND = f"""{_APPEND_EFFECTS}
SELECT head.agent_id, said.dm, said.gateway, said.outbox_id, said.rev
FROM head LEFT JOIN said ON true ORDER BY said.rev
"""  # noqa: S608 - constants only
# A copy shows the beginning of the question that was answered.
_APPEND_WITH_COPIES = f"""{_APPEND_EFFECTS}, copied AS (
    INSERT INTO choir_control.outbox (dm, gateway, agent_id, session_id, rev, kind, copied_from, text, at)
    SELECT f.dm, {gateway_sql("head", "f.dm")}, head.agent_id, head.session_id, f.rev, '{COPY_KIND}', r.dm,
        concat_ws(E'\n\n', concat_ws(E'\n', f.heading,
                                     '> ' || replace(left(NULLIF(asked.text, ''), 300), E'\n', E'\n> ')),
                  NULLIF(r.text, ''), NULLIF(f.footer, '')), r.at
    FROM head, unnest($31::bigint[], $32::text[], $33::text[], $34::text[]) AS f(rev, dm, heading, footer)
    JOIN unnest($19::bigint[], $21::text[], $22::text[], $23::timestamptz[], $30::text[])
        AS r(rev, text, answers, at, dm)
        USING (rev)
    LEFT JOIN choir_control.inbox AS asked ON asked.inbox_id = r.answers
    ORDER BY f.rev
    RETURNING outbox_id, rev, dm, gateway, text
), told AS (
    SELECT *, NULL AS text FROM said UNION ALL SELECT * FROM copied
)
SELECT head.agent_id, told.* FROM head LEFT JOIN told ON true ORDER BY told.outbox_id
"""  # noqa: S608 - constants only

# Most heartbeats have no effects outside the log, or no events. This is the statement above without
# the effects, for several sessions at once. Each row is compared separately and succeeds or fails
# separately.
_APPEND_WORK = f"""
WITH head AS (
    UPDATE choir_control.sessions AS s SET
        head_rev = a.new_rev, head_hash = a.new_hash, last_heartbeat_at = clock_timestamp(),
        resumes = CASE WHEN a.completes THEN 0 ELSE s.resumes END
    FROM unnest($1::text[], $2::integer[], $3::bytea[], $4::bigint[], $5::text[], $6::bigint[],
                $7::text[], $8::boolean[])
        AS a(session_id, epoch, token, base_rev, base_hash, new_rev, new_hash, completes)
    WHERE s.session_id = a.session_id AND s.epoch = a.epoch AND s.token_sha256 = a.token
      AND s.head_rev = a.base_rev AND s.head_hash = a.base_hash
      AND s.status IN ('starting', 'active', 'stopping')
    RETURNING s.session_id
), stored AS (
    INSERT INTO choir_control.session_events
        (session_id, rev, lane, type, payload, at, hash_prev, hash, signature)
    SELECT e.*
    FROM unnest($9::text[], $10::bigint[], $11::text[], $12::text[], $13::json[], $14::text[],
                $15::text[], $16::text[], $18::bytea[])
        AS e(session_id, rev, lane, type, payload, at, hash_prev, hash, signature)
    JOIN head USING (session_id)
), {charge_ctes(_GROUP_CHARGES)}
SELECT session_id FROM head
"""  # noqa: S608 - constants only

_READ = """
SELECT rev, lane, type, payload, at, hash_prev, hash, signature
FROM choir_control.session_events
WHERE session_id = $1 AND rev > $2 ORDER BY rev LIMIT $3
"""
_READ_NEWEST = """
SELECT rev, lane, type, payload, at, hash_prev, hash FROM choir_control.session_events
WHERE session_id = $1 AND lane = $2 ORDER BY rev DESC LIMIT $3
"""
_OPEN_JOBS = """
WITH jobs AS (
    SELECT rev, type, payload ->> 'job_id' AS job_id, payload ->> 'job_name' AS name, payload ->> 'dm' AS dm
    FROM choir_control.session_events
    WHERE session_id = $1 AND type IN ('core_started', 'core_stopped')
)
SELECT name FROM jobs AS started
WHERE type = 'core_started' AND ($2::text IS NULL OR dm = $2) AND NOT EXISTS (
    SELECT FROM jobs AS ended WHERE ended.type = 'core_stopped' AND ended.job_id = started.job_id)
ORDER BY rev
"""
# SQL condition for rehearsals: sessions in which only the scripted rehearsal model has answered.
IS_REHEARSAL_SQL = """(s.rehearsal AND (s.forgotten_at IS NOT NULL OR NOT EXISTS (
    SELECT FROM choir_control.session_events AS e WHERE e.session_id = s.session_id
      AND e.type = 'model_output' AND e.payload ->> 'model' <> 'rehearsal')))"""
"""For a session `s`. If another model answered too, the session is not a rehearsal and memory keeps it."""


@dataclass(frozen=True, slots=True)
class ErasedLog:
    """The remains of an erased log: the time, and the hashes and signatures of its events."""

    erased_at: datetime
    hashes: bytes
    signatures: bytes
    """Empty if the log was erased before there was a key."""


@dataclass(frozen=True, slots=True)
class DurableHead:
    """A session's durable head; `live` is False if this lease may no longer write."""

    live: bool
    head: LogHead


class EventStore:
    """Store of the table `session_events` and of the heads in `sessions`."""

    def __init__(self, database: Database, keyring: AuditKeyring) -> None:
        self._database = database
        self._keyring = keyring

    async def append(self, lease: Lease, batch: EventBatch) -> list[OutboundMessage] | None:
        """Store a batch after its base; return the outbox rows, or None if the base is not the head."""
        signatures = self._sign(batch.events)
        rows = await self._database.fetch(
            _APPEND_WITH_COPIES if batch.copies else _APPEND,
            *_core(lease, batch),
            *_effects(lease, batch),
            signatures,
            [reply.dm for reply in batch.replies],
            *(_copies(batch) if batch.copies else ()),
        )
        if not rows:
            return None
        replies = {reply.rev: reply for reply in batch.replies}
        return [
            _make_message(row, lease, replies[row["rev"]])
            for row in rows
            if row["outbox_id"] is not None
        ]

    async def append_group(self, batches: Sequence[tuple[Lease, EventBatch]]) -> set[str]:
        """Store batches without effects, one per session; return the sessions whose base was the head.

        Raises Refused if Postgres rejects a value of any of them; none is stored then.
        """
        signatures = [item for _, batch in batches for item in self._sign(batch.events)]
        rows = await self._database.fetch(
            _APPEND_WORK, *_heads(batches), *_events(batches), _charges(batches), signatures
        )
        return {row["session_id"] for row in rows}

    def _sign(self, events: Sequence[Event]) -> list[bytes]:
        return [self._keyring.sign_event(e.session_id, e.rev, e.hash) for e in events]

    async def read_head(self, lease: Lease) -> DurableHead:
        """Return the session's durable head, and store the sign of life."""
        row = await self._database.fetchrow(
            """
            UPDATE choir_control.sessions SET last_heartbeat_at = clock_timestamp()
            WHERE session_id = $1 AND epoch = $2 AND token_sha256 = $3
              AND status IN ('starting', 'active', 'stopping')
            RETURNING head_rev, head_hash
            """,
            lease.session_id,
            lease.epoch,
            lease.digest,
        )
        if row is None:
            return DurableHead(False, LogHead())
        return DurableHead(True, LogHead(row["head_rev"], row["head_hash"]))

    async def read_hash(self, session_id: str, rev: int) -> str | None:
        """Return the hash of a stored event, or None."""
        stored_hash = await self._database.fetchval(
            "SELECT hash FROM choir_control.session_events WHERE session_id = $1 AND rev = $2",
            session_id,
            rev,
        )
        return str(stored_hash) if stored_hash is not None else None

    async def read(self, session_id: str, after: int, limit: int) -> list[Event]:
        """Return up to `limit` events after a revision, oldest first.

        Raises ValueError if a stored event is damaged.
        """
        return [event for event, _ in await self.read_signed(session_id, after, limit)]

    async def read_newest(self, session_id: str, lane: str, limit: int) -> list[Event]:
        """Return the newest events of one lane, oldest first."""
        rows = await self._database.fetch(_READ_NEWEST, session_id, lane, limit)
        return [event_from_row(session_id, row) for row in reversed(rows)]

    async def read_signed(
        self, session_id: str, after: int, limit: int
    ) -> list[tuple[Event, bytes | None]]:
        """Return the same with the signature of each event, if it has one."""
        rows = await self._database.fetch(_READ, session_id, after, limit)
        return [(event_from_row(session_id, row), row["signature"]) for row in rows]

    async def list_open_jobs(self, session_id: str, dm: str | None = None) -> list[str]:
        """Return the names of the open core jobs, oldest first: all, or those of one conversation."""
        rows = await self._database.fetch(_OPEN_JOBS, session_id, dm)
        return [row["name"] for row in rows]

    async def find_erased(self, session_id: str) -> ErasedLog | None:
        """Return the remains of an erased log, or None if the log was not erased."""
        row = await self._database.fetchrow(
            "SELECT erased_at, hashes, signatures FROM choir_control.erased_logs WHERE session_id = $1",
            session_id,
        )
        return ErasedLog(row["erased_at"], row["hashes"], row["signatures"] or b"") if row else None


def _core(lease: Lease, batch: EventBatch) -> tuple[object, ...]:
    """Return the parameters $1-$15 of the append statement: session, expected head, events."""
    events = batch.events
    return (
        lease.session_id,
        lease.epoch,
        lease.digest,
        batch.base.rev,
        batch.base.hash,
        batch.head.rev,
        batch.head.hash,
        batch.completes_turn,
        [e.rev for e in events],
        [e.lane for e in events],
        [e.type for e in events],
        list(batch.payloads),
        [e.at for e in events],
        [e.hash_prev for e in events],
        [e.hash for e in events],
    )


def _heads(asks: Sequence[tuple[Lease, EventBatch]]) -> tuple[object, ...]:
    """Return the parameters $1-$8 of the grouped append: expected and new heads."""
    return (
        [lease.session_id for lease, _ in asks],
        [lease.epoch for lease, _ in asks],
        [lease.digest for lease, _ in asks],
        [batch.base.rev for _, batch in asks],
        [batch.base.hash for _, batch in asks],
        [batch.head.rev for _, batch in asks],
        [batch.head.hash for _, batch in asks],
        [batch.completes_turn for _, batch in asks],
    )


def _events(asks: Sequence[tuple[Lease, EventBatch]]) -> tuple[object, ...]:
    """Return the parameters $9-$16 of the grouped append: the events of all batches."""
    events = [event for _, batch in asks for event in batch.events]
    return (
        [e.session_id for e in events],
        [e.rev for e in events],
        [e.lane for e in events],
        [e.type for e in events],
        [payload for _, batch in asks for payload in batch.payloads],
        [e.at for e in events],
        [e.hash_prev for e in events],
        [e.hash for e in events],
    )


def _charges(asks: Sequence[tuple[Lease, EventBatch]]) -> str:
    """Return the ledger entries of all batches as JSON."""
    rows = [row for lease, batch in asks for row in charge_rows(lease.session_id, batch.charges)]
    return dump_rows(rows)


def _effects(lease: Lease, batch: EventBatch) -> tuple[object, ...]:
    """Return the parameters $16-$28 of the append statement: inbox rows, replies, signals, money."""
    updates, replies = batch.inbox_updates, batch.replies
    return (
        [m.inbox_id for m in updates],
        [m.consumed_rev for m in updates],
        [m.answered_rev for m in updates],
        [reply.rev for reply in replies],
        [reply.kind for reply in replies],
        [reply.text for reply in replies],
        [reply.answers for reply in replies],
        [reply.at for reply in replies],
        list(batch.completed_signals.signals),
        list(batch.completed_signals.approvals),
        [dump_files(reply.spooled_files) for reply in replies],
        _charges([(lease, batch)]),
        dump_grants(batch.priced_grants),
    )


def _copies(batch: EventBatch) -> tuple[object, ...]:
    """Return the parameters $31-$34 of the append statement with copies."""
    return (
        [it.rev for it in batch.copies],
        [it.dm for it in batch.copies],
        [it.heading for it in batch.copies],
        [it.footer for it in batch.copies],
    )


def _make_message(row: Record, lease: Lease, reply: OutgoingReply) -> OutboundMessage:
    """Return the message of a new row: the reply, or a copy of it for another conversation."""
    is_copy = row["dm"] != reply.dm
    return OutboundMessage(
        outbox_id=row["outbox_id"],
        dm=row["dm"],
        gateway=row["gateway"],
        agent_id=row["agent_id"],
        session_id=lease.session_id,
        rev=reply.rev,
        kind=COPY_KIND if is_copy else reply.kind,
        text=row["text"] if is_copy else reply.text,
        answers=None if is_copy else reply.answers,
        at=reply.at,
        attachments=() if is_copy else make_attachments(reply.spooled_files),
    )
