"""Knowledge documents and the answers given per call_id, in the agent's own schema.

Called by `upsert`, always inside a transaction under the agent's role.
"""

from dataclasses import dataclass
from uuid import UUID

from choir_common.errors import Conflict
from choir_common.postgres.pool import Connection
from choir_common.wire.memories import MemoryWritten
from choir_memory.schema.naming import qualified

_CLAIM = """
INSERT INTO {schema}.operations (call_id, digest) VALUES ($1, $2)
ON CONFLICT DO NOTHING RETURNING call_id
"""
_RECALL = "SELECT digest, answer FROM {schema}.operations WHERE call_id = $1"
_RECORD = "UPDATE {schema}.operations SET answer = $2::jsonb WHERE call_id = $1"
_INSERT = """
INSERT INTO {schema}.knowledge_documents (id, key, text, tsv, tokens, metadata)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6::jsonb)
ON CONFLICT (key) DO NOTHING RETURNING id
"""
_FIND_BY_KEY = """
SELECT id, key, text, metadata = $2::jsonb AS same_metadata
FROM {schema}.knowledge_documents WHERE key = $1 FOR NO KEY UPDATE
"""
_FIND_BY_ID = """
SELECT id, key, text, metadata = $2::jsonb AS same_metadata
FROM {schema}.knowledge_documents WHERE id = $1 FOR NO KEY UPDATE
"""
_REPLACE = """
UPDATE {schema}.knowledge_documents
SET text = $2, tsv = $3::text::tsvector, tokens = $4, metadata = $5::jsonb,
    version = version + 1, updated_at = now()
WHERE id = $1
"""
# a vector of the old text must not answer for the new one
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = $1"
_DELETE = "DELETE FROM {schema}.knowledge_documents WHERE id = $1"


@dataclass(frozen=True, slots=True)
class Body:
    """What a document says, with its search tokens already cut."""

    text: str
    tsv: str
    tokens: int
    metadata: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class Found:
    """A stored document, locked for the rest of the transaction."""

    document_id: UUID
    key: str | None
    same_text: bool
    same_metadata: bool


class KnowledgeStore:
    """The statements over one agent's knowledge, on a connection under its role."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def claim(self, call_id: str, digest: str) -> MemoryWritten | None:
        """Reserve `call_id` for this transaction, or return the answer it already has.

        A concurrent call under the same id waits here. Raises Conflict when the id was used for
        something else.
        """
        if await self._held.fetchval(self._sql(_CLAIM), call_id, digest) is not None:
            return None
        row = await self._held.fetchrow(self._sql(_RECALL), call_id)
        if row is None or row["digest"] != digest:
            raise Conflict(
                f"The call_id {call_id} was used for another write; use a fresh one for each."
            )
        return MemoryWritten.model_validate_json(row["answer"])

    async def record(self, call_id: str, answer: MemoryWritten) -> None:
        """Keep the answer of this operation for whoever repeats it."""
        await self._held.execute(self._sql(_RECORD), call_id, answer.model_dump_json())

    async def insert(self, document_id: UUID, key: str | None, body: Body) -> bool:
        """Add a document; tell whether its key was free."""
        inserted = await self._held.fetchval(
            self._sql(_INSERT),
            document_id,
            key,
            body.text,
            body.tsv,
            body.tokens,
            body.metadata,
        )
        return inserted is not None

    async def find(self, key: str | None, document_id: UUID | None, body: Body) -> Found | None:
        """Return and lock the document of `key` or else of `document_id`, compared with `body`."""
        statement, name = (_FIND_BY_KEY, key) if key is not None else (_FIND_BY_ID, document_id)
        row = await self._held.fetchrow(self._sql(statement), name, body.metadata)
        if row is None:
            return None
        return Found(row["id"], row["key"], row["text"] == body.text, row["same_metadata"])

    async def replace(self, document_id: UUID, body: Body) -> None:
        """Give a document a new body, without a vector until the queue makes one."""
        await self._held.execute(
            self._sql(_REPLACE), document_id, body.text, body.tsv, body.tokens, body.metadata
        )
        await self._held.execute(self._sql(_DROP_VECTORS), document_id)

    async def delete(self, document_id: UUID) -> None:
        """Remove a document and its vectors."""
        await self._held.execute(self._sql(_DELETE), document_id)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
