"""Facts and rules, and the turns they are taken from, in one agent's own schema.

Called by `extraction` and `reconcile`, on a connection under the agent's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.embedding.port import QueryVector
from choir_memory.layers.candidates import Turn
from choir_memory.schema.naming import qualified

# Rows become visible at their commit and bear the time of their transaction's begin; no page takes a minute.
_SETTLED = "created_at < clock_timestamp() - interval '1 minute'"
_NEXT = f"""
SELECT id, session_id, coalesce(speaker, ''), happened_at, text, origin = 'user', trust, created_at,
       chunk_index
FROM {{schema}}.memory_documents
WHERE tier IN ('mid_term', 'long_term_detail') AND kind = 'turn' AND trust >= $4 AND expires_at IS NULL
  AND origin IN ('user', 'agent') AND {_SETTLED}
  AND NOT (origin = 'agent' AND metadata ? 'reminded')
  AND (created_at, session_id, chunk_index) > ($1, $2, $3)
ORDER BY created_at, session_id, chunk_index LIMIT $5
"""  # noqa: S608 a condition of ours
_HOLD_TURNS = "SELECT id FROM {schema}.memory_documents WHERE id = ANY($1::uuid[]) FOR KEY SHARE"
_ABOUT = """
SELECT id, status, text, subject, predicate, object FROM {schema}.knowledge_documents
WHERE kind = $1 AND status IN ('active', 'held') AND lower(subject) = lower($2)
ORDER BY created_at DESC LIMIT 200
"""
_NEAR = """
SELECT d.id, d.status, d.text, d.subject, d.predicate, d.object
FROM {schema}.knowledge_embeddings e JOIN {schema}.knowledge_documents d ON d.id = e.document_id
WHERE d.kind = $1 AND d.status IN ('active', 'held') AND e.model = $2
  AND 1 - (e.embedding <=> $3::text::halfvec) >= $4
ORDER BY e.embedding <=> $3::text::halfvec LIMIT 1
"""
_SEEN = """
UPDATE {schema}.knowledge_documents d SET seen_count = seen_count + 1, updated_at = now(),
    trust = greatest(trust, $3),
    status = CASE WHEN status = 'held' AND ($4 OR EXISTS (
        SELECT FROM {schema}.links l JOIN {schema}.memory_documents m ON m.id = l.to_id
        WHERE l.from_id = d.id AND l.kind = 'evidence' AND m.session_id <> $2))
        THEN 'active' ELSE status END
WHERE id = $1
"""
_CLOSE = """
UPDATE {schema}.knowledge_documents
SET status = 'retired', retired_at = clock_timestamp(), valid_to = $2, updated_at = now()
WHERE id = $1 AND status <> 'retired'
"""
_CAP = """
UPDATE {schema}.knowledge_documents SET status = 'retired', retired_at = clock_timestamp(), updated_at = now()
WHERE id IN (SELECT id FROM {schema}.knowledge_documents WHERE kind = 'rule' AND status = 'active'
             AND key IS NULL ORDER BY seen_count DESC, updated_at DESC, id OFFSET $1)
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class Position:
    """The last turn that was read, in the order they were stored."""

    created_at: datetime
    session_id: str
    chunk_index: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A turn and where it stands in that order."""

    turn: Turn
    position: Position


@dataclass(frozen=True, slots=True)
class Stored:
    """A fact or rule that is known."""

    document_id: UUID
    status: str
    text: str
    subject: str | None
    predicate: str | None
    object: str | None


class FactStore:
    """The statements over one agent's facts."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def next_turns(self, after: Position, min_trust: int, limit: int) -> list[Placed]:
        """Return the turns stored after that one, that are trusted enough to learn from."""
        rows = await self._held.fetch(
            self._sql(_NEXT),
            *(after.created_at, after.session_id, after.chunk_index, min_trust, limit),
        )
        return [
            Placed(
                Turn(*row[:7]), Position(row["created_at"], row["session_id"], row["chunk_index"])
            )
            for row in rows
        ]

    async def hold(self, turn_ids: Sequence[UUID]) -> bool:
        """Keep these turns from being erased until the transaction ends; tell whether all are there."""
        rows = await self._held.fetch(self._sql(_HOLD_TURNS), list(turn_ids))
        return len(rows) == len(set(turn_ids))

    async def about(self, kind: str, subject: str) -> list[Stored]:
        """Return what is known of a subject, the newest first."""
        rows = await self._held.fetch(self._sql(_ABOUT), kind, subject)
        return [Stored(*row) for row in rows]

    async def nearest(self, kind: str, vector: QueryVector, least: float) -> Stored | None:
        """Return the fact that means the same, by the cosine of its text."""
        row = await self._held.fetchrow(self._sql(_NEAR), kind, vector.model, vector.text, least)
        return None if row is None else Stored(*row)

    async def seen(self, document_id: UUID, session_id: str, trust: int, *, commit: bool) -> bool:
        """Note that it was said again; what was held becomes active if `commit`, or said in two sessions.

        False when it is gone.
        """
        done = await self._held.execute(self._sql(_SEEN), document_id, session_id, trust, commit)
        return done != "UPDATE 0"

    async def close(self, document_id: UUID, at: datetime) -> None:
        """End a fact: it held until `at`; it stays readable, and search finds it only when asked to."""
        await self._held.execute(self._sql(_CLOSE), document_id, at)

    async def cap_rules(self, most: int) -> list[UUID]:
        """Retire the rules beyond `most` that were said least and longest ago; return them."""
        return [row["id"] for row in await self._held.fetch(self._sql(_CAP), most)]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
