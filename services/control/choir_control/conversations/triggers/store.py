"""Store of the table `trigger_deliveries`.

One statement stores what arrived, and one gives it to the agent: state, inbox row and signal. So a kill at
any moment loses and doubles nothing.
"""

from collections.abc import Sequence
from datetime import datetime

from pydantic import TypeAdapter

from choir_common.errors import Unavailable
from choir_common.i18n import _
from choir_common.ids import new_id
from choir_common.postgres.pool import Database, Record
from choir_common.wire.attachments import Attachment
from choir_common.wire.triggers import DeliveryView, TriggerType
from choir_control.conversations.message_outcome import (
    DETAIL_CASES,
    OUTCOME_CASES,
    OUTCOME_JOINS,
    UNANSWERED,
)
from choir_control.conversations.triggers.records import (
    KEY_PREFIX,
    NewDelivery,
    OpenDeliveries,
    StoredDelivery,
    TriggerTarget,
    WaitingDelivery,
)

_ATTACHMENTS: TypeAdapter[tuple[Attachment, ...]] = TypeAdapter(tuple[Attachment, ...])

MAX_OPEN = 100
"""Deliveries of a trigger that wait or are running; more are refused."""
MAX_RUNNING = 4
"""Deliveries of a trigger that the agent has at a time; others wait, so that it is not flooded."""
PAGE = 100
ATTEMPTS = 3

# Within the window the key stays as it is; afterwards it makes room for an equal content.
_RELEASE = """
UPDATE choir_control.trigger_deliveries SET key = key || ' ' || delivery_id
WHERE type = $1 AND name = $2 AND key = $3 AND received_at < $4
"""
_IS_STORED = """
SELECT EXISTS (SELECT FROM choir_control.trigger_deliveries WHERE type = $1 AND name = $2 AND key = $3)
"""
_ADD = """
WITH open_ones AS (
    SELECT count(*) AS n FROM choir_control.trigger_deliveries
    WHERE type = $2 AND name = $3 AND state IN ('waiting', 'running')
), added AS (
    INSERT INTO choir_control.trigger_deliveries
        (delivery_id, type, name, agent_id, dm, kind, body, key, content_key, size, received_at)
    SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11 FROM open_ones WHERE open_ones.n < $12
    ON CONFLICT DO NOTHING
    RETURNING delivery_id
), with_files AS (
    -- Closed, so that no agent takes it up before the delivery starts.
    INSERT INTO choir_control.inbox
        (inbox_id, gateway, update_id, dm, text, sent_at, attachments, closed_at)
    SELECT delivery_id, $13, $14 || delivery_id, $5, '', $11, $15::json, clock_timestamp()
    FROM added WHERE $15::text IS NOT NULL
)
SELECT open_ones.n, (SELECT delivery_id FROM added) AS added, (
    SELECT delivery_id FROM choir_control.trigger_deliveries
    WHERE type = $2 AND name = $3 AND (key = $8 OR content_key = $9) ORDER BY seq LIMIT 1) AS known
FROM open_ones
"""
# Deliveries whose agent serves their conversation now, as `blocked_reason` has it for schedules.
_WAITING = """
SELECT d.* FROM (
    SELECT w.*, row_number() OVER (PARTITION BY type, name ORDER BY seq) + (
        SELECT count(*) FROM choir_control.trigger_deliveries AS r
        WHERE r.type = w.type AND r.name = w.name AND r.state = 'running') AS place
    FROM choir_control.trigger_deliveries AS w WHERE w.state = 'waiting'
) AS d
JOIN choir_control.sessions AS live ON live.agent_id = d.agent_id
    AND live.status IN ('starting', 'active', 'crashed')
    AND NOT (live.status = 'crashed' AND live.end_reason IS NOT NULL)  -- a suspended session
WHERE d.place <= $1 AND (live.dm = d.dm OR EXISTS (
    SELECT FROM choir_control.session_conversations AS c
    WHERE c.session_id = live.session_id AND c.dm = d.dm))
ORDER BY d.seq LIMIT $2
"""
_START = """
WITH started AS (
    UPDATE choir_control.trigger_deliveries SET state = 'running', started_at = $3
    WHERE delivery_id = $1 AND state = 'waiting' RETURNING delivery_id, dm, body
), asked AS (
    INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at)
    SELECT delivery_id, $2, $5 || delivery_id, dm, body, $3 FROM started
    -- The row with the files was stored with the delivery.
    ON CONFLICT (inbox_id) DO UPDATE
        SET text = excluded.text, sent_at = excluded.sent_at, closed_at = NULL
    RETURNING inbox_id, dm
), offered AS (
    INSERT INTO choir_control.signals (dm, body, inbox_id) SELECT dm, $4::json, inbox_id FROM asked
)
SELECT true FROM asked
"""
_SETTLE = f"""
WITH outcomes AS (
    SELECT d.delivery_id, CASE {OUTCOME_CASES} END AS outcome, CASE
        {DETAIL_CASES}
        WHEN asked.answered_rev IS NULL THEN '{UNANSWERED}' ELSE '' END AS detail
    FROM choir_control.trigger_deliveries AS d
    LEFT JOIN choir_control.inbox AS asked ON asked.inbox_id = d.delivery_id
    {OUTCOME_JOINS}
    WHERE d.state = 'running'
)
UPDATE choir_control.trigger_deliveries AS d
SET state = outcomes.outcome, detail = outcomes.detail, ended_at = $1
FROM outcomes WHERE d.delivery_id = outcomes.delivery_id AND d.state = 'running'
    AND outcomes.outcome IS NOT NULL
RETURNING d.delivery_id
"""  # noqa: S608 our own SQL
_FAIL = """
UPDATE choir_control.trigger_deliveries SET state = 'failed', detail = $2, ended_at = $3
WHERE delivery_id = $1 AND state = 'waiting'
"""
_FAIL_REMOVED = """
UPDATE choir_control.trigger_deliveries
SET state = 'failed', detail = 'its trigger was removed from config.json', ended_at = $2
WHERE state = 'waiting' AND NOT (type || ' ' || name = ANY($1::text[]))
"""
_COLUMNS = """delivery_id, seq, type, name, agent_id, dm, kind, body AS text, key, size, state, detail,
    received_at, started_at, ended_at"""


class TriggerStore:
    """Store of what arrived through triggers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def release_key(
        self, type_: TriggerType, name: str, *, key: str, before: datetime
    ) -> None:
        """Let a key be used again if it was used before a time."""
        await self._database.execute(_RELEASE, type_, name, key, before)

    async def is_stored(self, type_: TriggerType, name: str, key: str) -> bool:
        """Return whether a delivery with a key is stored."""
        return bool(await self._database.fetchval(_IS_STORED, type_, name, key))

    async def add(self, delivery: NewDelivery) -> StoredDelivery | None:
        """Store a delivery once, and return its id; None if too many of the trigger are open."""
        target = delivery.target
        for _attempt in range(ATTEMPTS):
            row = await self._database.fetchrow(
                _ADD,
                new_id(target.type),
                target.type,
                target.name,
                target.agent_id,
                target.dm,
                target.kind,
                delivery.text,
                delivery.key,
                delivery.content_key,
                delivery.size,
                delivery.received_at,
                MAX_OPEN,
                delivery.file_gateway,
                KEY_PREFIX,
                _ATTACHMENTS.dump_json(files).decode() if (files := delivery.attachments) else None,
            )
            if row is not None and (delivery_id := row["added"] or row["known"]) is not None:
                return StoredDelivery(delivery_id, is_duplicate=row["added"] is None)
            if row is not None and row["n"] >= MAX_OPEN:
                return None
        raise Unavailable(_("The same request is being stored elsewhere; try again."))

    async def list_waiting(self) -> list[WaitingDelivery]:
        """Return the deliveries that can start now, oldest first."""
        rows = await self._database.fetch(_WAITING, MAX_RUNNING, PAGE)
        return [
            WaitingDelivery(row["delivery_id"], _target(row), row["body"], row["received_at"])
            for row in rows
        ]

    async def start(
        self, delivery: WaitingDelivery, *, gateway: str, signal: str, now: datetime
    ) -> bool:
        """Give a waiting delivery to its agent; return False if it does not wait any more."""
        started = await self._database.fetchval(
            _START, delivery.delivery_id, gateway, now, signal, KEY_PREFIX
        )
        return bool(started)

    async def fail(self, delivery_id: str, detail: str, now: datetime) -> None:
        """Record that a waiting delivery can never start."""
        await self._database.execute(_FAIL, delivery_id, detail, now)

    async def fail_removed(self, configured: Sequence[str], now: datetime) -> None:
        """Record the failure of waiting deliveries whose trigger is not configured any more."""
        await self._database.execute(_FAIL_REMOVED, list(configured), now)

    async def settle(self, now: datetime) -> int:
        """Store how deliveries ended; return their number."""
        return len(await self._database.fetch(_SETTLE, now))

    async def count_open(self) -> dict[tuple[str, str], OpenDeliveries]:
        """Return the open deliveries by type and name of the trigger."""
        rows = await self._database.fetch(
            """
            SELECT type, name, count(*) FILTER (WHERE state = 'waiting') AS waiting,
                count(*) FILTER (WHERE state = 'running') AS running
            FROM choir_control.trigger_deliveries WHERE state IN ('waiting', 'running')
            GROUP BY type, name
            """
        )
        return {(r["type"], r["name"]): OpenDeliveries(r["waiting"], r["running"]) for r in rows}

    async def list_page(
        self, type_: TriggerType | None, name: str | None, *, before: int, limit: int
    ) -> list[DeliveryView]:
        """Return deliveries of a trigger or of all, the newest first, with numbers below `before`."""
        rows = await self._database.fetch(
            f"""
            SELECT {_COLUMNS} FROM choir_control.trigger_deliveries
            WHERE ($1::text IS NULL OR type = $1) AND ($2::text IS NULL OR name = $2) AND seq < $3
            ORDER BY seq DESC LIMIT $4
            """,  # noqa: S608 our own column names
            type_,
            name,
            before,
            limit,
        )
        return [DeliveryView(**row) for row in rows]


def _target(row: Record) -> TriggerTarget:
    return TriggerTarget(row["type"], row["name"], row["agent_id"], row["dm"], row["kind"])
