"""Store for rows of `memory_documents`, and for links between documents of either store.

Called inside a transaction under the agent's role. A row that is stored again with the same text keeps
its vectors; with another text it is replaced and has no vector until the queue creates one.

A link points from the derived document to its source. The two ends may be in different tables, so there
is no foreign key; `erase_store` deletes links with their documents.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

import orjson

from choir_common.errors import Conflict
from choir_common.postgres.pool import Connection
from choir_memory.documents.model import LinkKind, Tier, UnitRow, conversations_sql
from choir_memory.schema.store import qualified
from choir_memory.text.questions import question_share
from choir_memory.text.tokens import tsvector

_KNOWN = """
SELECT d.id, d.text = given.text AS same_text
FROM {schema}.memory_documents d
JOIN unnest($1::uuid[], $2::text[]) AS given (id, text) ON given.id = d.id
FOR NO KEY UPDATE OF d
"""
_TAKEN = """
SELECT d.session_id, d.chunk_index FROM {schema}.memory_documents d
JOIN unnest($1::uuid[], $2::text[], $3::text[], $4::int[]) AS given (id, session_id, tier, chunk_index)
  ON d.session_id = given.session_id AND d.tier = given.tier AND d.chunk_index = given.chunk_index
WHERE d.id <> given.id LIMIT 1
"""
# the tier of an existing row is not updated: a repeated run must not undo a promotion
_PUT = """
INSERT INTO {schema}.memory_documents AS d
    (id, session_id, tier, chunk_index, kind, text, tsv, tokens, happened_at, ended_at, speaker,
     first_rev, last_rev, grain, period, origin, trust, expires_at, metadata, asking, conversations)
SELECT id, session_id, tier, chunk_index, kind, text, tsv::tsvector, tokens, happened_at, ended_at, speaker,
       first_rev, last_rev, grain, period, origin, trust, expires_at, metadata::jsonb,
       asking, conversations::text[]
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[], $8::int[],
            $9::timestamptz[], $10::timestamptz[], $11::text[], $12::bigint[], $13::bigint[], $14::text[],
            $15::text[], $16::text[], $17::smallint[], $18::timestamptz[], $19::text[],
            $20::real[], $21::text[])
  AS given (id, session_id, tier, chunk_index, kind, text, tsv, tokens, happened_at, ended_at, speaker,
            first_rev, last_rev, grain, period, origin, trust, expires_at, metadata, asking, conversations)
ON CONFLICT (id) DO UPDATE SET
    chunk_index = excluded.chunk_index, kind = excluded.kind, text = excluded.text, tsv = excluded.tsv,
    tokens = excluded.tokens, happened_at = excluded.happened_at, ended_at = excluded.ended_at,
    speaker = excluded.speaker, first_rev = excluded.first_rev, last_rev = excluded.last_rev,
    origin = excluded.origin, trust = excluded.trust, expires_at = excluded.expires_at,
    metadata = excluded.metadata, asking = excluded.asking, conversations = excluded.conversations,
    version = d.version + (d.text <> excluded.text)::int
"""
_DROP_VECTORS = "DELETE FROM {schema}.memory_embeddings WHERE document_id = ANY($1::uuid[])"
_OF_SESSION = """
SELECT id FROM {schema}.memory_documents
WHERE session_id = $1 AND ($2::text IS NULL OR tier = $2) ORDER BY tier, chunk_index
"""
# The version does not change, so that a vector being computed for the row is still accepted.
_MOVE = """
UPDATE {schema}.memory_documents SET tier = $3
WHERE id IN (SELECT id FROM {schema}.memory_documents
             WHERE session_id = $1 AND tier = $2 ORDER BY chunk_index LIMIT $4)
RETURNING id
"""


_ADD_LINKS = """
INSERT INTO {schema}.links (from_id, kind, to_id)
SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class PreparedUnit:
    """A row with its search tokens."""

    row: UnitRow
    tsv: str
    tokens: int


async def prepare_units(rows: Sequence[UnitRow]) -> list[PreparedUnit]:
    """Tokenize the rows' texts in a thread. Call it before the transaction, not inside it."""
    return await asyncio.to_thread(lambda: [_prepare(row) for row in rows])


class DocumentStore:
    """Session memory of one agent, on a connection under its role."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def upsert(self, rows: Sequence[PreparedUnit]) -> list[UUID]:
        """Store rows with distinct ids; return those that need a vector: new ones, and those with a new text.

        Raises Conflict when another row has the same position in the session.
        """
        if not rows:
            return []
        ids = [unit.row.document_id for unit in rows]
        existing_rows = await self._connection.fetch(
            self._sql(_KNOWN), ids, [unit.row.text for unit in rows]
        )
        same_text_by_id = {row["id"]: row["same_text"] for row in existing_rows}
        await self._refuse_taken(rows)
        columns = zip(*(_columns(unit) for unit in rows), strict=True)
        await self._connection.execute(self._sql(_PUT), *(list(column) for column in columns))
        await self.drop_vectors(
            [unit for unit, same_text in same_text_by_id.items() if not same_text]
        )
        return [unit_id for unit_id in ids if not same_text_by_id.get(unit_id, False)]

    async def list_session_ids(self, session_id: str, tier: Tier | None = None) -> list[UUID]:
        """Return the ids of a session's rows in order."""
        rows = await self._connection.fetch(self._sql(_OF_SESSION), session_id, tier)
        return [row["id"] for row in rows]

    async def change_tier(self, session_id: str, tier: Tier, to: Tier, limit: int) -> list[UUID]:
        """Move the first `limit` rows of a session from one tier to another; return their ids."""
        rows = await self._connection.fetch(self._sql(_MOVE), session_id, tier, to, limit)
        return [row["id"] for row in rows]

    async def drop_vectors(self, document_ids: Sequence[UUID]) -> None:
        """Delete the vectors of these documents; full text still finds them."""
        if document_ids:
            await self._connection.execute(self._sql(_DROP_VECTORS), list(document_ids))

    async def _refuse_taken(self, rows: Sequence[PreparedUnit]) -> None:
        places = [
            (row.row.document_id, row.row.session_id, row.row.tier, row.row.chunk_index)
            for row in rows
        ]
        columns = [list(column) for column in zip(*places, strict=True)]
        conflict = await self._connection.fetchrow(self._sql(_TAKEN), *columns)
        if conflict is not None:
            raise Conflict(
                f"Position {conflict['chunk_index']} of session {conflict['session_id']} is taken "
                "by another unit; give each unit of a session its own position."
            )

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


@dataclass(frozen=True, slots=True)
class Link:
    """A link: `from_id` exists because of `to_id`."""

    from_id: UUID
    kind: LinkKind
    to_id: UUID


class LinkStore:
    """Links of one agent, on a connection under its role."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def add(self, links: Sequence[Link]) -> None:
        """Insert links; existing ones are kept."""
        if links:
            columns = zip(*((link.from_id, link.kind, link.to_id) for link in links), strict=True)
            await self._connection.execute(
                self._sql(_ADD_LINKS), *(list(column) for column in columns)
            )

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _prepare(row: UnitRow) -> PreparedUnit:
    tokens = row.tokens()
    return PreparedUnit(row, tsvector(tokens), len(tokens))


def _columns(unit: PreparedUnit) -> tuple[object, ...]:
    row = unit.row
    return (
        row.document_id,
        row.session_id,
        row.tier,
        row.chunk_index,
        row.kind,
        row.text,
        unit.tsv,
        unit.tokens,
        row.happened_at,
        row.ended_at,
        row.speaker,
        row.first_rev,
        row.last_rev,
        row.grain,
        row.period,
        row.origin,
        row.trust,
        row.expires_at,
        orjson.dumps(row.metadata).decode(),
        question_share(row.text),
        conversations_sql(row.conversations),
    )
