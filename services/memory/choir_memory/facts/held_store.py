"""Held facts of ended sessions, and what may support them. `HeldFactStore` needs the agent's role."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal
from uuid import UUID

from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import Conversations, parse_conversations, readable_clause
from choir_memory.documents.status import NOT_OVER
from choir_memory.facts.candidates import SourceTurn
from choir_memory.facts.store import EXTRACTABLE, TurnPosition, source_turn
from choir_memory.schema.store import qualified

# A fact with evidence from two sessions is not held any more.
_HELD = f"""
SELECT d.id, d.text, m.session_id, array_agg(m.id) AS evidence, d.conversations
FROM {{schema}}.knowledge_documents d
JOIN {{schema}}.links l ON l.from_id = d.id AND l.kind = 'evidence'
JOIN {{schema}}.memory_documents m ON m.id = l.to_id
WHERE d.kind = 'fact' AND d.status = 'held' AND NOT d.metadata ? 'reviewed' AND {NOT_OVER}
GROUP BY d.id, d.text, d.conversations, m.session_id ORDER BY m.session_id, d.id
"""  # noqa: S608 a condition of ours
_UNREAD = f"""
SELECT EXISTS (
    SELECT FROM {{schema}}.memory_documents WHERE session_id = $1 AND {EXTRACTABLE.format(trust="$2")}
      AND (created_at, session_id, chunk_index) > ($3, $4, $5))
"""  # noqa: S608 a condition of ours
_USER_TURNS = f"""
SELECT id, session_id, coalesce(speaker, ''), happened_at, text, TRUE AS by_user, trust, conversations
FROM {{schema}}.memory_documents d
WHERE session_id = $1 AND origin = 'user' AND {EXTRACTABLE.format(trust="$2")}{{readable}}
ORDER BY chunk_index
"""  # noqa: S608 a condition of ours
_EPISODE = """
SELECT text FROM {schema}.knowledge_documents d
WHERE kind = 'episode' AND metadata ->> 'session_id' = $1 AND trust >= $2{readable}
ORDER BY trust DESC, happened_at, id LIMIT 4
"""
_PROMOTE = f"""
UPDATE {{schema}}.knowledge_documents d
SET status = 'active', updated_at = now(), metadata = metadata || jsonb_build_object('promoted_by', $2::text)
WHERE id = $1 AND status = 'held' AND {NOT_OVER} RETURNING id
"""  # noqa: S608 a condition of ours
_REVIEWED = """
UPDATE {schema}.knowledge_documents SET metadata = metadata || '{"reviewed": true}'
WHERE id = ANY($1::uuid[]) AND status = 'held'
"""
_ENDED = """
SELECT session_id FROM choir_memory.sessions
WHERE agent_id = $1 AND session_id = ANY($2) AND ended_at IS NOT NULL AND erased_at IS NULL
"""

SupportKind = Literal["transcript", "episode"]


@dataclass(frozen=True, slots=True)
class HeldFact:
    """A held fact with the turns of the session that it rests on."""

    document_id: UUID
    text: str
    session_id: str
    evidence: tuple[UUID, ...]
    conversations: Conversations


async def list_ended(
    database: Database, agent_id: str, session_ids: Collection[str]
) -> frozenset[str]:
    """Return which of these sessions have ended."""
    rows = await database.fetch(_ENDED, agent_id, list(session_ids))
    return frozenset(row["session_id"] for row in rows)


class HeldFactStore:
    """Statements on one agent's held facts."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def list_unreviewed(self) -> list[HeldFact]:
        """Return the held facts that were not reviewed yet, by session."""
        rows = await self._connection.fetch(self._sql(_HELD))
        return [
            HeldFact(
                *(row["id"], row["text"], row["session_id"], tuple(row["evidence"])),
                parse_conversations(row["conversations"]),
            )
            for row in rows
        ]

    async def has_unread_turns(
        self, session_id: str, position: TurnPosition, min_trust: int
    ) -> bool:
        """Return whether a session has turns behind the position of the extraction."""
        place = (position.created_at, position.session_id, position.chunk_index)
        return bool(
            await self._connection.fetchval(self._sql(_UNREAD), session_id, min_trust, *place)
        )

    async def list_user_turns(
        self, session_id: str, min_trust: int, reader: MemoryReader | None
    ) -> list[SourceTurn]:
        """Return what the user said in a session, in order, as far as a reader may find it."""
        rows = await self._fetch_readable(_USER_TURNS, reader, session_id, min_trust)
        return [source_turn(row) for row in rows]

    async def read_episodes(
        self, session_id: str, min_trust: int, reader: MemoryReader | None
    ) -> str:
        """Return the texts of a session's episodes that a reader may find; empty if there are none."""
        rows = await self._fetch_readable(_EPISODE, reader, session_id, min_trust)
        return "\n".join(row["text"] for row in rows)

    async def promote(self, document_id: UUID, by: SupportKind) -> bool:
        """Make a held fact active; return False if it is not held any more."""
        return await self._connection.fetchval(self._sql(_PROMOTE), document_id, by) is not None

    async def mark_reviewed(self, document_ids: Sequence[UUID]) -> None:
        """Mark held facts as reviewed, so that their session is not read again."""
        await self._connection.execute(self._sql(_REVIEWED), list(document_ids))

    async def _fetch_readable(
        self, statement: str, reader: MemoryReader | None, *arguments: object
    ) -> list[Record]:
        sql, more = readable_clause(reader, len(arguments) + 1)
        filled = self._sql(statement.replace("{readable}", sql))
        return await self._connection.fetch(filled, *arguments, *more)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
