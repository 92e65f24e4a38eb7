"""Agents whose new turns wait for extraction: rows of `choir_memory.cursors`, for all replicas.

A row is written in the transaction that stores the turns, so no crash loses it. It contains when the
extraction is due, when the last turns were stored, and how many attempts have failed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from choir_common.postgres.pool import Connection, Database

NAME = "extraction due"
SETTLE_S = 65.0
"""Seconds until stored turns are read: a little more than a transaction that stores them can take."""
FIRST_RETRY_S, MAX_RETRY_S = 60.0, 3_600.0
"""Delays after a failed attempt; each is twice the one before it."""

# `now()` is the start of the transaction, like `created_at` of the turns
_ENQUEUE = """
INSERT INTO choir_memory.cursors AS c (agent_id, name, position)
VALUES ($1, $2, jsonb_build_object(
    'due', now() + make_interval(secs => $3), 'stored', now(), 'tries', 0))
ON CONFLICT (agent_id, name) DO UPDATE SET position = excluded.position || jsonb_build_object(
    'due', c.position -> 'due', 'tries', c.position -> 'tries')
"""
# The name is no parameter: a prepared statement with one cannot use the partial index.
_DUE = f"""
SELECT agent_id, clock_timestamp() AS at FROM choir_memory.cursors
WHERE name = '{NAME}' AND (position ->> 'due')::timestamptz <= clock_timestamp()
ORDER BY (position ->> 'due')::timestamptz LIMIT $1
"""  # noqa: S608 a constant
_COMPLETE = """
DELETE FROM choir_memory.cursors
WHERE agent_id = $1 AND name = $2
  AND (position ->> 'stored')::timestamptz <= $3::timestamptz - make_interval(secs => $4)
"""
_CONTINUE = """
UPDATE choir_memory.cursors SET position = position || jsonb_build_object(
    'due', (position ->> 'stored')::timestamptz + make_interval(secs => $3), 'tries', 0)
WHERE agent_id = $1 AND name = $2
"""
_POSTPONE = """
UPDATE choir_memory.cursors SET position = position || jsonb_build_object(
    'tries', (position ->> 'tries')::int + 1,
    'due', clock_timestamp() + make_interval(
        secs => least($4, $3 * 2 ^ least((position ->> 'tries')::int, 20))))
WHERE agent_id = $1 AND name = $2
"""


@dataclass(frozen=True, slots=True)
class DueExtraction:
    """An agent whose turns can be read now."""

    agent_id: str
    at: datetime
    """The time of the database when this was read."""


async def enqueue_extraction(connection: Connection, agent_id: str) -> None:
    """Note that turns were stored or a session ended, in the transaction that did; requires the service's
    role."""
    await connection.execute(_ENQUEUE, agent_id, NAME, SETTLE_S)


class ExtractionQueueStore:
    """Statements on the queue, under the service's role."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_due(self, limit: int) -> Sequence[DueExtraction]:
        """Return the agents whose extraction is due, the longest waiting first."""
        rows = await self._database.fetch(_DUE, limit)
        return [DueExtraction(*row.values()) for row in rows]

    async def complete(self, due: DueExtraction) -> None:
        """Remove an agent after its turns were read; it stays queued if turns were stored since."""
        done = await self._database.execute(_COMPLETE, due.agent_id, NAME, due.at, SETTLE_S)
        if done == "DELETE 0":
            await self._database.execute(_CONTINUE, due.agent_id, NAME, SETTLE_S)

    async def postpone(self, agent_id: str) -> None:
        """Delay the next attempt after one that failed, longer each time."""
        await self._database.execute(_POSTPONE, agent_id, NAME, FIRST_RETRY_S, MAX_RETRY_S)
