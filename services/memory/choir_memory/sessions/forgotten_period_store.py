"""Periods that an agent must forget, or must learn nothing from, also from later pages of a session's log.

A row of `choir_memory.cursors`, because memory may receive the events of a period after it was erased.
Requires the service's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import TypeAdapter

from choir_common.postgres.pool import Connection

CURSOR_NAME = "forgotten"

# A page is stored either before an erasure, which then finds it, or after it, with its periods known.
_LOCK_PAGE = "SELECT pg_advisory_xact_lock_shared(hashtextextended('erasure ' || $1::text, 0))"
_LOCK_ERASURE = "SELECT pg_advisory_xact_lock(hashtextextended('erasure ' || $1::text, 0))"
_READ = """
SELECT (position -> 'periods')::text FROM choir_memory.cursors WHERE agent_id = $1 AND name = $2
"""
_ADD = """
INSERT INTO choir_memory.cursors AS c (agent_id, name, position)
VALUES ($1, $2, jsonb_build_object('periods', $3::text::jsonb))
ON CONFLICT (agent_id, name) DO UPDATE
SET position = jsonb_build_object('periods', (c.position -> 'periods') || $3::text::jsonb)
"""

PeriodEffect = Literal["erased", "unlearned", "no_summary"]
"""`erased`: nothing is stored; `unlearned`: units are stored, and nothing is learned from them. Any of them,
and `no_summary` alone: the agent's own summary of the session is not stored."""


@dataclass(frozen=True, slots=True)
class ForgottenPeriod:
    """A period to forget: of one session, or of all (None).

    Without `since` from the beginning, without `until` to the end.
    """

    since: datetime | None
    until: datetime | None
    session_id: str | None = None
    effect: PeriodEffect = "erased"

    def covers(self, session_id: str, start: datetime, end: datetime) -> bool:
        """Return whether something of this session that lasted from `start` to `end` is in the period."""
        return (
            self.session_id in (None, session_id)
            and (self.until is None or start < self.until)
            and (self.since is None or end >= self.since)
        )


_PERIODS: TypeAdapter[tuple[ForgottenPeriod, ...]] = TypeAdapter(tuple[ForgottenPeriod, ...])


async def lock_against_erasure(connection: Connection, agent_id: str) -> None:
    """Make erasures wait until this transaction ends; call it before any row is locked."""
    await connection.execute(_LOCK_PAGE, agent_id)


async def lock_for_erasure(connection: Connection, agent_id: str) -> None:
    """Wait for pages that are being stored, and make later ones wait until this transaction ends."""
    await connection.execute(_LOCK_ERASURE, agent_id)


async def add_forgotten_period(
    connection: Connection, agent_id: str, period: ForgottenPeriod
) -> None:
    """Store a period to forget."""
    rendered = _PERIODS.dump_json((period,)).decode()
    await connection.execute(_ADD, agent_id, CURSOR_NAME, rendered)


async def read_forgotten_periods(
    connection: Connection, agent_id: str
) -> Sequence[ForgottenPeriod]:
    """Return the periods to forget."""
    document = await connection.fetchval(_READ, agent_id, CURSOR_NAME)
    return () if document is None else _PERIODS.validate_json(document)
