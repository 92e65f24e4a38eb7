"""Erase documents, everything that refers to them, and everything derived from them alone.

Called inside a transaction: first `erase_documents` under the agent's role, then `erase_references` under the
service's role. Vectors are deleted with their document. Derived documents are deleted as well
(docs/design/memory.md rules 17 to 19):

- a time summary or episode (`rolls_up`) with any of its sources; time summaries are then written again,
- a document with `evidence` when the last of it goes; until then it only loses its quotation,
- an entity that nothing mentions any more, unless a user or an operator wrote it.

Knowledge that only erased documents superseded is valid again.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.schema.store import qualified

_DEPENDENTS = """
SELECT l.from_id AS id FROM {schema}.links l
WHERE l.to_id = ANY($1::uuid[]) AND l.from_id <> ALL($1::uuid[])
  AND (l.kind = 'rolls_up' OR (l.kind = 'evidence' AND NOT EXISTS (
       SELECT FROM {schema}.links o
       WHERE o.from_id = l.from_id AND o.kind = 'evidence' AND o.to_id <> ALL($1::uuid[]))))
UNION
SELECT l.to_id FROM {schema}.links l JOIN {schema}.knowledge_documents d ON d.id = l.to_id
WHERE l.from_id = ANY($1::uuid[]) AND l.kind = 'mentions' AND l.to_id <> ALL($1::uuid[])
  AND d.kind = 'entity' AND d.origin NOT IN ('user', 'operator') AND NOT EXISTS (
      SELECT FROM {schema}.links o
      WHERE o.to_id = l.to_id AND o.kind = 'mentions' AND o.from_id <> ALL($1::uuid[]))
"""
# what a successor ended, or will end, has an end; what was only marked as retired has none
_SUPERSEDED = """
SELECT d.id FROM {schema}.knowledge_documents d
WHERE d.valid_to IS NOT NULL AND d.id <> ALL($1::uuid[]) AND EXISTS (
        SELECT FROM {schema}.links l
        WHERE l.to_id = d.id AND l.kind = 'supersedes' AND l.from_id = ANY($1::uuid[]))
  AND NOT EXISTS (
        SELECT FROM {schema}.links l
        WHERE l.to_id = d.id AND l.kind = 'supersedes' AND l.from_id <> ALL($1::uuid[]))
"""
_RESTORE = """
UPDATE {schema}.knowledge_documents
SET status = coalesce(status_before, 'active'), valid_to = valid_to_before, status_before = NULL,
    valid_to_before = NULL, retired_at = NULL, updated_at = now()
WHERE id = ANY($1::uuid[])
"""
_UNQUOTE = """
UPDATE {schema}.knowledge_documents SET evidence = NULL
WHERE evidence IS NOT NULL AND id IN (
    SELECT from_id FROM {schema}.links WHERE kind = 'evidence' AND to_id = ANY($1::uuid[]))
"""
_UNLINK = """
DELETE FROM {schema}.links WHERE from_id = ANY($1::uuid[]) OR to_id = ANY($1::uuid[])
"""
_DELETE_SESSION = """
DELETE FROM {schema}.memory_documents WHERE id = ANY($1::uuid[]) RETURNING id
"""
_DELETE_KNOWLEDGE = """
DELETE FROM {schema}.knowledge_documents WHERE id = ANY($1::uuid[]) RETURNING id
"""
# a key may be as revealing as a text; a caller that repeats the call sends the key again
_FORGET_KEYS = """
UPDATE {schema}.operations SET answer = jsonb_set(answer, '{key}', 'null')
WHERE answer ->> 'document_id' = ANY($1::text[]) AND answer ->> 'key' IS NOT NULL
"""
# Rows locked by the embedding worker are skipped: it finds no document and deletes the row itself.
_UNQUEUE = """
DELETE FROM choir_memory.embedding_queue WHERE id IN (
    SELECT id FROM choir_memory.embedding_queue
    WHERE agent_id = $1 AND document_id = ANY($2::uuid[]) FOR UPDATE SKIP LOCKED)
"""
_DELETE_FEEDBACK = """
DELETE FROM choir_memory.session_feedback WHERE agent_id = $1 AND turn_id = ANY($2::uuid[])
"""
_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_RECEIPTS = f"""
SELECT id, receipt::text AS receipt FROM choir_memory.receipts
WHERE agent_id = $1 AND EXISTS (
    SELECT FROM regexp_matches(receipt::text, '{_ID}', 'g') AS said (ids)
    WHERE said.ids[1] = ANY($2::text[]))
"""  # noqa: S608 a pattern of ours
_CHANGE_RECEIPT = "UPDATE choir_memory.receipts SET receipt = $2::jsonb WHERE id = $1"
ERASED_ID = str(UUID(int=0))
"""Replaces the id of an erased document in receipts."""


@dataclass(frozen=True, slots=True)
class ErasedDocuments:
    """The deleted documents of both stores: those requested and those derived from them."""

    session: tuple[UUID, ...]
    knowledge: tuple[UUID, ...]

    @property
    def ids(self) -> tuple[UUID, ...]:
        """Return the ids of both stores."""
        return self.session + self.knowledge


async def erase_documents(
    connection: Connection, agent_id: str, document_ids: Collection[UUID]
) -> ErasedDocuments:
    """Delete documents and everything that depends on them alone; requires the agent's role."""
    derived_ids = await find_derived(connection, agent_id, document_ids)
    return await delete_documents(connection, agent_id, {*document_ids, *derived_ids})


async def find_derived(
    connection: Connection, agent_id: str, document_ids: Collection[UUID]
) -> set[UUID]:
    """Return the documents that depend on these alone, directly or through others."""
    sources, reached = set(document_ids), set(document_ids)
    # repeated, because dependents have dependents: a day's summary is a source of a week's
    while dependent_ids := {
        row["id"] for row in await connection.fetch(qualified(_DEPENDENTS, agent_id), list(reached))
    }:
        reached |= dependent_ids
    return reached - sources


async def find_superseded(
    connection: Connection, agent_id: str, document_ids: Collection[UUID]
) -> set[UUID]:
    """Return the knowledge that these documents alone superseded."""
    sql = qualified(_SUPERSEDED, agent_id)
    return {row["id"] for row in await connection.fetch(sql, list(document_ids))}


async def delete_documents(
    connection: Connection, agent_id: str, document_ids: Collection[UUID]
) -> ErasedDocuments:
    """Delete exactly these documents, their links, and quotations of them; requires the agent's role.

    What they alone superseded is restored. A document with `evidence` among them stays, even if it has no
    other evidence.
    """

    def sql(statement: str) -> str:
        return qualified(statement, agent_id)

    ids = list(document_ids)
    superseded_ids = await find_superseded(connection, agent_id, document_ids)
    await connection.execute(sql(_RESTORE), list(superseded_ids))
    await connection.execute(sql(_UNQUOTE), ids)
    await connection.execute(sql(_UNLINK), ids)
    session = await connection.fetch(sql(_DELETE_SESSION), ids)
    knowledge = await connection.fetch(sql(_DELETE_KNOWLEDGE), ids)
    await connection.execute(sql(_FORGET_KEYS), [str(document_id) for document_id in ids])
    return ErasedDocuments(tuple(r["id"] for r in session), tuple(r["id"] for r in knowledge))


async def erase_references(
    connection: Connection, agent_id: str, document_ids: Sequence[UUID]
) -> None:
    """Remove erased documents from the embedding queue, from feedback and from receipts; requires the
    service's role."""
    await connection.execute(_UNQUEUE, agent_id, list(document_ids))
    await connection.execute(_DELETE_FEEDBACK, agent_id, list(document_ids))
    id_texts = [str(document_id) for document_id in document_ids]
    erased_ids = frozenset(id_texts)
    for row in await connection.fetch(_RECEIPTS, agent_id, id_texts):
        receipt = re.sub(
            _ID, lambda match: ERASED_ID if match[0] in erased_ids else match[0], row["receipt"]
        )
        await connection.execute(_CHANGE_RECEIPT, row["id"], receipt)
