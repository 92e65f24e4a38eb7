"""Facts and rules, the turns they are extracted from, and the position of the extraction.

`FactStore` needs the agent's role. The position is in `choir_memory.cursors`, under the service's role;
the row exists because `LeaseStore` created it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import parse_conversations, readable_clause
from choir_memory.embedding.embedder import QueryVector
from choir_memory.facts.candidates import SourceTurn
from choir_memory.schema.store import qualified

# Rows become visible at commit but have the start time of their transaction. No transaction that stores a
# page takes a minute, so after that no earlier row can appear.
_SETTLED = "created_at < clock_timestamp() - interval '1 minute'"
EXTRACTABLE = """
tier IN ('mid_term', 'long_term_detail') AND kind = 'turn' AND trust >= {trust} AND expires_at IS NULL
AND origin IN ('user', 'agent') AND NOT (origin = 'agent' AND metadata ? 'reminded')
AND NOT metadata ? 'unlearned'
"""
"""SQL condition of the turns that are read; `trust` is a placeholder."""
_NEXT = f"""
SELECT id, session_id, coalesce(speaker, ''), happened_at, text, origin = 'user', trust, created_at,
       chunk_index, conversations
FROM {{schema}}.memory_documents
WHERE {EXTRACTABLE.format(trust="$4")} AND {_SETTLED}
  AND (created_at, session_id, chunk_index) > ($1, $2, $3)
ORDER BY created_at, session_id, chunk_index LIMIT $5
"""  # noqa: S608 a condition of ours
_HOLD_TURNS = """
SELECT id FROM {schema}.memory_documents WHERE id = ANY($1::uuid[]) AND NOT metadata ? 'unlearned'
FOR KEY SHARE
"""
_ABOUT = """
SELECT d.id, d.status, d.text, d.subject, d.predicate, d.object FROM {schema}.knowledge_documents d
WHERE d.kind = $1 AND d.status IN ('active', 'held') AND lower(d.subject) = lower($2)
    AND (d.valid_to IS NULL OR d.valid_to > now()){readable}
ORDER BY d.created_at DESC LIMIT 200
"""
_NEAR = """
SELECT d.id, d.status, d.text, d.subject, d.predicate, d.object
FROM {schema}.knowledge_embeddings e JOIN {schema}.knowledge_documents d ON d.id = e.document_id
WHERE d.kind = $1 AND d.status IN ('active', 'held') AND e.model = $2
  AND (d.valid_to IS NULL OR d.valid_to > now())
  AND 1 - (e.embedding <=> $3::halfvec) >= $4{readable}
ORDER BY e.embedding <=> $3::halfvec LIMIT 1
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
# The parts of one message count once.
_PROMOTE_REPEATED = """
UPDATE {schema}.knowledge_documents d
SET status = 'active', updated_at = now(), metadata = metadata || '{"promoted_by": "repetition"}'
WHERE id = ANY($1::uuid[]) AND status = 'held' AND EXISTS (
    SELECT FROM {schema}.links l JOIN {schema}.memory_documents m ON m.id = l.to_id
    WHERE l.from_id = d.id AND l.kind = 'evidence' AND m.origin = 'user'
    GROUP BY m.session_id HAVING count(DISTINCT coalesce(m.first_rev::text, m.id::text)) >= $2)
"""
# An earlier end that somebody has set stays, and no fact ends before it starts.
_CLOSE = """
UPDATE {schema}.knowledge_documents
SET status_before = coalesce(status_before, status),
    valid_to_before = CASE WHEN status_before IS NULL THEN valid_to ELSE valid_to_before END,
    status = 'retired', retired_at = clock_timestamp(), updated_at = now(),
    valid_to = least(valid_to, greatest(valid_from, $2::timestamptz))
WHERE id = $1 AND status <> 'retired'
"""
_CAP = """
UPDATE {schema}.knowledge_documents SET status = 'retired', retired_at = clock_timestamp(), updated_at = now()
WHERE id IN (SELECT id FROM {schema}.knowledge_documents WHERE kind = 'rule' AND status = 'active'
             AND key IS NULL AND (valid_to IS NULL OR valid_to > now())
             ORDER BY seen_count DESC, updated_at DESC, id OFFSET $1)
RETURNING id
"""


@dataclass(frozen=True, slots=True)
class TurnPosition:
    """The last turn that was processed, in storage order."""

    created_at: datetime
    session_id: str
    chunk_index: int


@dataclass(frozen=True, slots=True)
class PositionedTurn:
    """A turn with its position in storage order."""

    turn: SourceTurn
    position: TurnPosition


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A stored fact or rule."""

    document_id: UUID
    status: str
    text: str
    subject: str | None
    predicate: str | None
    object: str | None


class FactStore:
    """Statements on one agent's facts."""

    def __init__(
        self, connection: Connection, agent_id: str, reader: MemoryReader | None = None
    ) -> None:
        """Create it; with a `reader`, comparisons find only the facts that this reader may find."""
        self._connection = connection
        self._agent_id = agent_id
        self._reader = reader

    async def read_turns(
        self, after: TurnPosition, min_trust: int, limit: int
    ) -> list[PositionedTurn]:
        """Return the turns stored after a position with at least `min_trust`."""
        rows = await self._connection.fetch(
            self._sql(_NEXT),
            *(after.created_at, after.session_id, after.chunk_index, min_trust, limit),
        )
        return [
            PositionedTurn(
                source_turn(row),
                TurnPosition(row["created_at"], row["session_id"], row["chunk_index"]),
            )
            for row in rows
        ]

    async def lock_turns(self, turn_ids: Sequence[UUID]) -> bool:
        """Protect these turns from erasure until the transaction ends; return whether all may be read."""
        rows = await self._connection.fetch(self._sql(_HOLD_TURNS), list(turn_ids))
        return len(rows) == len(set(turn_ids))

    async def list_by_subject(self, kind: str, subject: str) -> list[StoredFact]:
        """Return the facts or rules about a subject, newest first."""
        rows = await self._connection.fetch(*self._readable(_ABOUT, kind, subject))
        return [StoredFact(*row) for row in rows]

    async def find_nearest(self, kind: str, vector: QueryVector, least: float) -> StoredFact | None:
        """Return the most similar fact or rule with a cosine of at least `least`."""
        row = await self._connection.fetchrow(
            *self._readable(_NEAR, kind, vector.model, vector.value, least)
        )
        return None if row is None else StoredFact(*row)

    async def count_repetition(
        self, document_id: UUID, session_id: str, trust: int, *, commit: bool
    ) -> bool:
        """Count a repetition; a held fact becomes active if `commit`, or if it was said in two sessions.

        Return False when the fact no longer exists.
        """
        done = await self._connection.execute(
            self._sql(_SEEN), document_id, session_id, trust, commit
        )
        return done != "UPDATE 0"

    async def promote_repeated(self, document_ids: Sequence[UUID], messages: int) -> None:
        """Make those of these held facts active that the user stated in `messages` messages of a session."""
        await self._connection.execute(self._sql(_PROMOTE_REPEATED), list(document_ids), messages)

    async def retire(self, document_id: UUID, at: datetime) -> None:
        """Retire a fact that was valid until `at`; search finds it only if retired facts are included."""
        await self._connection.execute(self._sql(_CLOSE), document_id, at)

    async def cap_rules(self, most: int) -> list[UUID]:
        """Retire the least frequent and oldest rules beyond `most`; return their ids."""
        return [row["id"] for row in await self._connection.fetch(self._sql(_CAP), most)]

    def _readable(self, statement: str, *arguments: object) -> list[Any]:
        """Return a statement limited to what the reader may find, and its arguments."""
        sql, more = readable_clause(self._reader, len(arguments) + 1)
        return [self._sql(statement.replace("{readable}", sql)), *arguments, *more]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def source_turn(row: Record) -> SourceTurn:
    """Return the turn in a row whose first seven columns are its fields."""
    conversations = parse_conversations(row["conversations"])
    return replace(SourceTurn(*row[:7]), conversations=conversations)


_READ = """
SELECT position::text FROM choir_memory.cursors WHERE agent_id = $1 AND name = $2 AND position <> '{}'
"""
_MOVE = "UPDATE choir_memory.cursors SET position = $3::jsonb WHERE agent_id = $1 AND name = $2"


async def read_cursor(database: Database, agent_id: str, name: str) -> dict[str, object] | None:
    """Return the position, or None at the beginning."""
    position = await database.fetchval(_READ, agent_id, name)
    return None if position is None else dict(orjson.loads(position))


async def write_cursor(
    connection: Connection, agent_id: str, name: str, position: dict[str, object]
) -> None:
    """Store the position, in the transaction that stores the results up to it."""
    await connection.execute(_MOVE, agent_id, name, orjson.dumps(position).decode())
