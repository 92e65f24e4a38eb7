"""Documents of collections in an agent's knowledge, under the agent's role."""

from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_collections import CollectionDocument
from choir_memory.schema.store import qualified

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
_LIST = """
SELECT collection, metadata ->> 'document' AS name, count(*) AS chunks,
       max((metadata ->> 'characters')::int) AS characters, min(created_at) AS added_at
FROM {schema}.knowledge_documents
WHERE kind = 'document_chunk' AND ($1::text IS NULL OR collection = $1)
GROUP BY 1, 2 ORDER BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A piece of a document, with the document's name and digest."""

    document_id: UUID
    name: str
    digest: str


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

    async def list_documents(self, collection: str | None) -> tuple[CollectionDocument, ...]:
        """Return the documents of a collection, or of all."""
        rows = await self._connection.fetch(self._sql(_LIST), collection)
        return tuple(CollectionDocument(**dict(row)) for row in rows)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
