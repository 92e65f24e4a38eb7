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
INSERT INTO {schema}.knowledge_documents (id, key, text, tsv, tokens, metadata, origin, trust)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6::jsonb, $7, $8)
ON CONFLICT (key) DO NOTHING RETURNING id
"""
# What was retired or has run out is not what the writer sees: writing the same again brings it back. And what
# is repeated by somebody who is trusted further is trusted further from then on.
_FIND = """
SELECT id, key, version, text = $2 AND metadata = $3::jsonb AND trust >= $4 AND status = 'active'
    AND (expires_at IS NULL OR expires_at > now()) AS same
FROM {schema}.knowledge_documents WHERE {named} = $1 FOR NO KEY UPDATE
"""
# the new words are the writer's: they are trusted as the writer is, whoever wrote the old ones
_REPLACE = """
UPDATE {schema}.knowledge_documents
SET text = $2, tsv = $3::text::tsvector, tokens = $4, metadata = $5::jsonb, origin = $6, trust = $7,
    status = 'active', retired_at = NULL, expires_at = NULL, evidence = NULL,
    version = version + 1, updated_at = now()
WHERE id = $1 RETURNING version
"""
# a vector of the old text must not answer for the new one
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = $1"
# the old words' reasons are none for the new ones
_DROP_LINKS = "DELETE FROM {schema}.links WHERE from_id = $1"


@dataclass(frozen=True, slots=True)
class Body:
    """What a document says, with its search tokens already cut."""

    text: str
    tsv: str
    tokens: int
    metadata: str
    """JSON."""
    origin: str
    trust: int


@dataclass(frozen=True, slots=True)
class Found:
    """A stored document, locked for the rest of the transaction."""

    document_id: UUID
    key: str | None
    version: int
    same: bool
    """Whether it says already what is to be written."""


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
            body.origin,
            body.trust,
        )
        return inserted is not None

    async def find(self, key: str | None, document_id: UUID | None, body: Body) -> Found | None:
        """Return and lock the document of `key` or else of `document_id`, compared with `body`."""
        named, name = ("key", key) if key is not None else ("id", document_id)
        sql = self._sql(_FIND.replace("{named}", named))
        row = await self._held.fetchrow(sql, name, body.text, body.metadata, body.trust)
        return Found(row["id"], row["key"], row["version"], row["same"]) if row else None

    async def replace(self, document_id: UUID, body: Body) -> int:
        """Give a document a new body, without a vector until the queue makes one; return its version."""
        version = await self._held.fetchval(
            self._sql(_REPLACE),
            document_id,
            body.text,
            body.tsv,
            body.tokens,
            body.metadata,
            body.origin,
            body.trust,
        )
        await self._held.execute(self._sql(_DROP_VECTORS), document_id)
        await self._held.execute(self._sql(_DROP_LINKS), document_id)
        return int(version)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
