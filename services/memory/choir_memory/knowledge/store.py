"""Knowledge documents, and the stored answers per call_id, in the agent's own schema.

Always inside a transaction under the agent's role.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.postgres.pool import Connection
from choir_common.wire.memory_search import MemoryWritten, WritableStatus
from choir_memory.documents.model import Conversations, parse_conversations
from choir_memory.schema.store import qualified

_CLAIM = """
INSERT INTO {schema}.operations (call_id, digest) VALUES ($1, $2)
ON CONFLICT DO NOTHING RETURNING call_id
"""
_RECALL = "SELECT digest, answer FROM {schema}.operations WHERE call_id = $1"
_RECORD = "UPDATE {schema}.operations SET answer = $2::jsonb WHERE call_id = $1"
_INSERT = """
INSERT INTO {schema}.knowledge_documents
    (id, key, text, tsv, tokens, metadata, origin, trust, status, valid_from, valid_to, retired_at,
     conversations)
VALUES ($1, $2, $3, $4::text::tsvector, $5, $6::jsonb, $7, $8, $9::text, $10, $11,
        CASE WHEN $9::text = 'retired' THEN clock_timestamp() END, $12::text[])
ON CONFLICT (key) DO NOTHING RETURNING id
"""
# A retired or expired document does not count as the same: writing its text again reactivates it. The
# same text from a writer with more trust raises the document's trust.
_FIND = """
SELECT id, key, version, trust, text = $2 AND metadata = $3::jsonb AND trust >= $4 AND status = $5
    AND (expires_at IS NULL OR expires_at > now()) AND (valid_to IS NULL OR valid_to > now())
    AND ($6::timestamptz IS NULL OR valid_from IS NOT DISTINCT FROM $6)
    AND ($7::timestamptz IS NULL OR valid_to IS NOT DISTINCT FROM $7) AS same,
    conversations
FROM {schema}.knowledge_documents WHERE {named} = $1 FOR NO KEY UPDATE
"""
# The new text has the trust of its writer, regardless of who wrote the old one. It may repeat the old one, so
# it belongs to the conversations of both.
_REPLACE = """
UPDATE {schema}.knowledge_documents
SET text = $2, tsv = $3::text::tsvector, tokens = $4, metadata = $5::jsonb, origin = $6, trust = $7,
    expires_at = NULL, evidence = NULL,
    conversations = ARRAY(SELECT DISTINCT unnest(conversations || $8::text[]) ORDER BY 1)
WHERE id = $1
"""
# A validity that is over, or never began, does not apply to a document that becomes active again.
_SET_VALIDITY = """
UPDATE {schema}.knowledge_documents
SET status = coalesce($2::text, status), valid_from = coalesce($3, valid_from),
    valid_to = coalesce($4, CASE
        WHEN $2::text IS DISTINCT FROM 'active' OR valid_to > greatest(valid_from, now())
        THEN valid_to END),
    retired_at = CASE WHEN coalesce($2::text, status) = 'retired'
        THEN coalesce(retired_at, clock_timestamp()) END,
    status_before = CASE WHEN $2::text IS DISTINCT FROM 'active'
        OR (status <> 'retired' AND valid_to > now()) THEN status_before END,
    version = version + 1, updated_at = now()
WHERE id = $1 RETURNING version, valid_from, valid_to
"""
# a document that is valid again is no longer superseded
_DROP_SUCCESSORS = """
DELETE FROM {schema}.links l USING {schema}.knowledge_documents d
WHERE d.id = $1 AND l.to_id = d.id AND l.kind = 'supersedes'
    AND (d.status = 'retired' OR d.valid_to <= now())
"""
_LOCK_NAMED = """
SELECT id, key, trust, conversations FROM {schema}.knowledge_documents
WHERE key = ANY($1::text[]) OR id = ANY($2::uuid[]) ORDER BY id FOR NO KEY UPDATE
"""
_LINK_SUPERSEDED = """
INSERT INTO {schema}.links (from_id, kind, to_id)
SELECT $1, 'supersedes', to_id FROM unnest($2::uuid[]) AS old (to_id)
ON CONFLICT DO NOTHING RETURNING to_id
"""
# With a start in the future the old document stays active until then, and expires by itself.
_CLOSE = """
UPDATE {schema}.knowledge_documents
SET valid_to_before = CASE WHEN status_before IS NULL THEN valid_to ELSE valid_to_before END,
    status_before = coalesce(status_before, status),
    valid_to = least(valid_to, greatest(valid_from, coalesce($2::timestamptz, now()))),
    status = CASE WHEN $2 > now() THEN status ELSE 'retired' END,
    retired_at = CASE WHEN $2 > now() THEN NULL ELSE clock_timestamp() END,
    version = version + 1, updated_at = now()
WHERE id = ANY($1::uuid[]) AND status <> 'retired'
"""
# a vector of the old text must not match for the new one
_DROP_VECTORS = "DELETE FROM {schema}.knowledge_embeddings WHERE document_id = $1"
# Evidence and other links of the old text do not apply to the new one; what the document replaced
# stays replaced.
_DROP_LINKS = "DELETE FROM {schema}.links WHERE from_id = $1 AND kind <> 'supersedes'"


@dataclass(frozen=True, slots=True)
class Validity:
    """Status and validity that a write sets; None: unchanged."""

    status: WritableStatus | None
    valid_from: datetime | None = None
    valid_to: datetime | None = None


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
    validity: Validity
    conversations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredValidity:
    """The version of a document after a change of its validity, and when it is valid."""

    version: int
    valid_from: datetime | None
    valid_to: datetime | None


@dataclass(frozen=True, slots=True)
class LockedDocument:
    """A stored document, locked for the rest of the transaction."""

    document_id: UUID
    key: str | None
    version: int
    trust: int
    same: bool
    """Whether it already has the content to be written."""
    conversations: Conversations


@dataclass(frozen=True, slots=True)
class NamedDocument:
    """A stored document that a write names as superseded."""

    document_id: UUID
    trust: int
    conversations: Conversations


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
                _(
                    "The call_id {call_id} was used for another write; use a fresh one for each."
                ).format(call_id=call_id)
            )
        return MemoryWritten.model_validate_json(row["answer"])

    async def store_answer(self, call_id: str, answer: MemoryWritten) -> None:
        """Store the answer of this operation for repeated calls."""
        await self._connection.execute(self._sql(_RECORD), call_id, answer.model_dump_json())

    async def insert(self, document_id: UUID, key: str | None, body: DocumentContent) -> bool:
        """Insert a document; return False if the key is taken."""
        validity = body.validity
        inserted = await self._connection.fetchval(
            self._sql(_INSERT),
            *(document_id, key, body.text, body.tsv, body.tokens, body.metadata),
            *(body.origin, body.trust),
            *(validity.status, validity.valid_from, validity.valid_to),
            list(body.conversations),
        )
        return inserted is not None

    async def find(
        self, key: str | None, document_id: UUID | None, body: DocumentContent
    ) -> LockedDocument | None:
        """Return and lock the document with `key`, or else `document_id`, compared with `body`."""
        column, value = ("key", key) if key is not None else ("id", document_id)
        sql, validity = self._sql(_FIND.replace("{named}", column)), body.validity
        row = await self._connection.fetchrow(
            sql,
            *(value, body.text, body.metadata, body.trust),
            *(validity.status, validity.valid_from, validity.valid_to),
        )
        return (
            LockedDocument(
                *(row["id"], row["key"], row["version"], row["trust"], bool(row["same"])),
                parse_conversations(row["conversations"]),
            )
            if row
            else None
        )

    async def replace(self, document_id: UUID, body: DocumentContent) -> StoredValidity:
        """Replace a document's content and delete its vectors and links; return the new version."""
        await self._connection.execute(
            self._sql(_REPLACE),
            *(document_id, body.text, body.tsv, body.tokens, body.metadata),
            *(body.origin, body.trust, list(body.conversations)),
        )
        await self._connection.execute(self._sql(_DROP_VECTORS), document_id)
        await self._connection.execute(self._sql(_DROP_LINKS), document_id)
        return await self.set_validity(document_id, body.validity)

    async def set_validity(self, document_id: UUID, validity: Validity) -> StoredValidity:
        """Change a document's status and validity; return the new version."""
        if validity.status == "active":
            await self._connection.execute(self._sql(_DROP_SUCCESSORS), document_id)
        row = await self._connection.fetchrow(
            self._sql(_SET_VALIDITY),
            *(document_id, validity.status, validity.valid_from, validity.valid_to),
        )
        assert row is not None  # locked by `find`
        return StoredValidity(row["version"], row["valid_from"], row["valid_to"])

    async def lock_named(self, names: Sequence[str]) -> dict[str, NamedDocument]:
        """Lock the documents with these ids or keys; return the document of each name that exists."""
        ids = {name: parsed for name in names if (parsed := parse_id(name)) is not None}
        rows = await self._connection.fetch(self._sql(_LOCK_NAMED), list(names), list(ids.values()))
        by_id = {
            row["id"]: NamedDocument(
                row["id"], row["trust"], parse_conversations(row["conversations"])
            )
            for row in rows
        }
        by_key = {row["key"]: by_id[row["id"]] for row in rows if row["key"] in names}
        return by_key | {name: by_id[parsed] for name, parsed in ids.items() if parsed in by_id}

    async def supersede(
        self, document_id: UUID, old_ids: Sequence[UUID], at: datetime | None
    ) -> list[UUID]:
        """Close documents at `at` (None: now) in favour of this one; return those not superseded before."""
        rows = await self._connection.fetch(self._sql(_LINK_SUPERSEDED), document_id, list(old_ids))
        new_ids = [row["to_id"] for row in rows]
        await self._connection.execute(self._sql(_CLOSE), new_ids, at)
        return new_ids

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def parse_id(name: str) -> UUID | None:
    """Return a name as a document id, or None if it is not one."""
    try:
        return UUID(name)
    except ValueError:
        return None
