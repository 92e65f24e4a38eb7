"""Derived and added documents in an agent's knowledge, on a connection under its role."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection
from choir_common.wire.model import JsonObject
from choir_memory.documents.model import Conversations, KnowledgeKind, Origin
from choir_memory.schema.store import qualified
from choir_memory.text.tokens import document_tokens, tsvector


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedDocument:
    """One document; its id is derived from its source."""

    document_id: UUID
    kind: KnowledgeKind
    text: str
    origin: Origin
    trust: int
    status: Literal["active", "held"] = "active"
    category: str | None = None
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    evidence: str | None = None
    happened_at: datetime | None = None
    valid_from: datetime | None = None
    expires_at: datetime | None = None
    collection: str | None = None
    chunk_index: int | None = None
    metadata: JsonObject = field(default_factory=dict)
    conversations: Conversations = ()

    def tokens(self) -> list[str]:
        """Return the search tokens of the text."""
        return document_tokens(self.text)


_SAME = """
SELECT d.id, d.text = given.text AS same_text FROM {schema}.knowledge_documents d
JOIN unnest($1::uuid[], $2::text[]) AS given (id, text) ON given.id = d.id FOR NO KEY UPDATE OF d
"""
_PUT = """
INSERT INTO {schema}.knowledge_documents AS d
    (id, kind, text, tsv, tokens, origin, trust, status, category, subject, predicate, object, evidence,
     happened_at, valid_from, expires_at, collection, chunk_index, metadata, conversations)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
        $19::jsonb, $20::text[])
ON CONFLICT (id) DO UPDATE SET
    text = excluded.text, tsv = excluded.tsv, tokens = excluded.tokens, origin = excluded.origin,
    trust = excluded.trust, category = excluded.category, subject = excluded.subject,
    predicate = excluded.predicate, object = excluded.object, evidence = excluded.evidence,
    happened_at = excluded.happened_at, expires_at = excluded.expires_at,
    metadata = excluded.metadata, conversations = excluded.conversations,
    seen_count = d.seen_count + 1, updated_at = now(),
    version = d.version + (d.text <> excluded.text)::int
"""
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = ANY($1::uuid[])"


@dataclass(frozen=True, slots=True)
class PreparedDerivedDocument:
    """A document with its search tokens."""

    document: DerivedDocument
    tsv: str
    tokens: int


async def prepare_derived(documents: Sequence[DerivedDocument]) -> list[PreparedDerivedDocument]:
    """Tokenize texts in a thread; call it before a transaction where possible."""
    return await asyncio.to_thread(lambda: [_prepare(document) for document in documents])


class DerivedDocumentStore:
    """Statements that write such documents."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def put(self, documents: Sequence[PreparedDerivedDocument]) -> list[UUID]:
        """Store documents; return those that need a vector because they are new or have a new text.

        `seen_count` of a document that exists already is incremented.
        """
        if not documents:
            return []
        ids = [prepared.document.document_id for prepared in documents]
        texts = [prepared.document.text for prepared in documents]
        rows = await self._connection.fetch(self._sql(_SAME), ids, texts)
        same = {row["id"]: row["same_text"] for row in rows}
        await self._connection.executemany(
            self._sql(_PUT), [_columns(prepared) for prepared in documents]
        )
        changed_ids = [document_id for document_id, is_same in same.items() if not is_same]
        await self._connection.execute(self._sql(_DROP_VECTORS), changed_ids)
        return [document_id for document_id in ids if not same.get(document_id, False)]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _prepare(document: DerivedDocument) -> PreparedDerivedDocument:
    tokens = document.tokens()
    return PreparedDerivedDocument(document, tsvector(tokens), len(tokens))


def _columns(prepared: PreparedDerivedDocument) -> tuple[object, ...]:
    document = prepared.document
    return (
        *(document.document_id, document.kind, document.text, prepared.tsv, prepared.tokens),
        *(document.origin, document.trust, document.status, document.category),
        *(document.subject, document.predicate, document.object, document.evidence),
        *(document.happened_at, document.valid_from, document.expires_at),
        *(document.collection, document.chunk_index, orjson.dumps(document.metadata).decode()),
        None if document.conversations is None else list(document.conversations),
    )
