"""Documents of collections in an agent's knowledge, under the agent's role."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_collections import CollectionDocument, CollectionView
from choir_memory.schema.store import qualified
from choir_memory.text.tokens import document_tokens, tsvector

# positions in a collection are assigned by one writer at a time
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
_OF_DOCUMENT = """
SELECT id, metadata ->> 'document' AS name, metadata ->> 'digest' AS digest FROM {schema}.knowledge_documents
WHERE kind = 'document_chunk' AND collection = $1 AND ($2::text IS NULL OR metadata ->> 'document' = $2)
"""
# with a gap: the end of one document is not a neighbour of the beginning of the next
_NEXT_PLACE = """
SELECT coalesce(max(chunk_index) + 2, 0) FROM {schema}.knowledge_documents WHERE collection = $1
"""
_IN_RANGE = """
SELECT id, text, metadata ->> 'document' AS name, metadata ->> 'digest' AS digest
FROM {schema}.knowledge_documents
WHERE collection = $1 AND chunk_index >= $2 AND chunk_index < $2 + $3
"""
# The version stays, and with it the vectors: only the name that the text begins with has changed.
_RENAME = """
UPDATE {schema}.knowledge_documents
SET text = $2, tsv = $3::text::tsvector, tokens = $4, updated_at = now(),
    metadata = metadata || jsonb_build_object('document', $5::text)
WHERE id = $1
"""
_COUNT = """
SELECT collection AS name, count(*) AS chunks, count(DISTINCT metadata ->> 'document') AS documents
FROM {schema}.knowledge_documents
WHERE kind = 'document_chunk' AND collection = ANY($1::text[]) GROUP BY 1
"""
_PAGE = """
SELECT metadata ->> 'document' AS name, count(*) AS chunks,
       max((metadata ->> 'characters')::int) AS characters, min(created_at) AS added_at
FROM {schema}.knowledge_documents
WHERE kind = 'document_chunk' AND collection = $1 AND (metadata ->> 'document') COLLATE "C" > $2
GROUP BY 1 ORDER BY (metadata ->> 'document') COLLATE "C" LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A piece of a document, with the document's name and digest."""

    document_id: UUID
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class PieceText:
    """A piece of a document, with its text."""

    document_id: UUID
    text: str


class CollectionStore:
    """Statements on one agent's collections."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def lock(self, collection: str) -> None:
        """Lock a collection for writing until the transaction ends."""
        await self._connection.execute(_LOCK, f"{self._agent_id}\x1f{collection}")

    async def list_chunks(self, collection: str, name: str | None) -> list[StoredChunk]:
        """Return the pieces of a document, or of the whole collection."""
        rows = await self._connection.fetch(self._sql(_OF_DOCUMENT), collection, name)
        return [StoredChunk(row["id"], row["name"], row["digest"]) for row in rows]

    async def next_position(self, collection: str) -> int:
        """Return the position of the next document's first piece."""
        return int(await self._connection.fetchval(self._sql(_NEXT_PLACE), collection))

    async def list_range(self, collection: str, first: int, count: int) -> list[PieceText]:
        """Return the pieces at `count` positions from `first`."""
        rows = await self._connection.fetch(self._sql(_IN_RANGE), collection, first, count)
        return [PieceText(row["id"], row["text"]) for row in rows]

    async def rename_pieces(
        self, pieces: Sequence[PieceText], old_title: str, new_title: str, name: str
    ) -> None:
        """Replace the document's name, with which the texts of these pieces begin."""
        texts = [
            PieceText(piece.document_id, new_title + piece.text.removeprefix(old_title))
            for piece in pieces
        ]
        rows = await asyncio.to_thread(lambda: [_renamed_row(piece, name) for piece in texts])
        await self._connection.executemany(self._sql(_RENAME), rows)

    async def count_documents(self, collections: Sequence[str]) -> list[CollectionView]:
        """Return the sizes of collections whose documents were added one by one."""
        rows = await self._connection.fetch(self._sql(_COUNT), list(collections))
        return [CollectionView(**dict(row)) for row in rows]

    async def list_documents(
        self, collection: str, after: str, limit: int
    ) -> list[CollectionDocument]:
        """Return a page of a collection's documents, by name."""
        rows = await self._connection.fetch(self._sql(_PAGE), collection, after, limit)
        return [CollectionDocument(**dict(row)) for row in rows]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _renamed_row(piece: PieceText, name: str) -> tuple[object, ...]:
    tokens = document_tokens(piece.text)
    return piece.document_id, piece.text, tsvector(tokens), len(tokens), name
