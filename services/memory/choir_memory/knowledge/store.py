"""Knowledge documents, and the stored answers per call_id, in the agent's own schema.

Always inside a transaction under the agent's role.
"""

from dataclasses import dataclass
from uuid import UUID

from choir_common.errors import Conflict
from choir_common.postgres.pool import Connection
from choir_common.wire.memory_search import MemoryWritten
from choir_memory.schema.store import qualified

_CLAIM = """
INSERT INTO {schema}.operations (call_id, digest) VALUES ($1, $2)
ON CONFLICT DO NOTHING RETURNING call_id
"""
_RECALL = "SELECT digest, answer FROM {schema}.operations WHERE call_id = $1"
_RECORD = "UPDATE {schema}.operations SET answer = $2::jsonb WHERE call_id = $1"
_INSERT = """
INSERT INTO {schema}.knowledge_documents (id, key, text, tsv, tokens, metadata, origin, trust)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6::jsonb, $7, $8)
ON CONFLICT (key) DO NOTHING RETURNING id
"""
# A retired or expired document does not count as the same: writing its text again reactivates it. The
# same text from a writer with more trust raises the document's trust.
_FIND = """
SELECT id, key, version, text = $2 AND metadata = $3::jsonb AND trust >= $4 AND status = 'active'
    AND (expires_at IS NULL OR expires_at > now()) AS same
FROM {schema}.knowledge_documents WHERE {named} = $1 FOR NO KEY UPDATE
"""
# the new text has the trust of its writer, regardless of who wrote the old one
_REPLACE = """
UPDATE {schema}.knowledge_documents
SET text = $2, tsv = $3::text::tsvector, tokens = $4, metadata = $5::jsonb, origin = $6, trust = $7,
    status = 'active', retired_at = NULL, expires_at = NULL, evidence = NULL,
    version = version + 1, updated_at = now()
WHERE id = $1 RETURNING version
"""
# a vector of the old text must not match for the new one
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = $1"
# evidence and other links of the old text do not apply to the new one
_DROP_LINKS = "DELETE FROM {schema}.links WHERE from_id = $1"


@dataclass(frozen=True, slots=True)
class DocumentContent:
    """Content of a document with its search tokens."""

    text: str
    tsv: str
    tokens: int
    metadata: str
    """JSON text."""
    origin: str
    trust: int


@dataclass(frozen=True, slots=True)
class LockedDocument:
    """A stored document, locked for the rest of the transaction."""

    document_id: UUID
    key: str | None
    version: int
    same: bool
    """Whether it already has the content to be written."""


class KnowledgeStore:
    """Knowledge of one agent, on a connection under its role."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def claim_call(self, call_id: str, digest: str) -> MemoryWritten | None:
        """Reserve `call_id` for this transaction, or return the answer stored under it.

        A concurrent call with the same id waits here. Raises Conflict when the id was used for another
        write.
        """
        if await self._connection.fetchval(self._sql(_CLAIM), call_id, digest) is not None:
            return None
        row = await self._connection.fetchrow(self._sql(_RECALL), call_id)
        if row is None or row["digest"] != digest:
            raise Conflict(
                f"The call_id {call_id} was used for another write; use a fresh one for each."
            )
        return MemoryWritten.model_validate_json(row["answer"])

    async def store_answer(self, call_id: str, answer: MemoryWritten) -> None:
        """Store the answer of this operation for repeated calls."""
        await self._connection.execute(self._sql(_RECORD), call_id, answer.model_dump_json())

    async def insert(self, document_id: UUID, key: str | None, body: DocumentContent) -> bool:
        """Insert a document; return False if the key is taken."""
        inserted = await self._connection.fetchval(
            self._sql(_INSERT),
            document_id,
            key,
            body.text,
            body.tsv,
            body.tokens,
            body.metadata,
            body.origin,
            body.trust,
        )
        return inserted is not None

    async def find(
        self, key: str | None, document_id: UUID | None, body: DocumentContent
    ) -> LockedDocument | None:
        """Return and lock the document with `key`, or else `document_id`, compared with `body`."""
        column, value = ("key", key) if key is not None else ("id", document_id)
        sql = self._sql(_FIND.replace("{named}", column))
        row = await self._connection.fetchrow(sql, value, body.text, body.metadata, body.trust)
        return LockedDocument(row["id"], row["key"], row["version"], row["same"]) if row else None

    async def replace(self, document_id: UUID, body: DocumentContent) -> int:
        """Replace a document's content and delete its vectors and links; return the new version."""
        version = await self._connection.fetchval(
            self._sql(_REPLACE),
            document_id,
            body.text,
            body.tsv,
            body.tokens,
            body.metadata,
            body.origin,
            body.trust,
        )
        await self._connection.execute(self._sql(_DROP_VECTORS), document_id)
        await self._connection.execute(self._sql(_DROP_LINKS), document_id)
        return int(version)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
