"""Erase documents with all that tells of them, and with what only they supported (spec 11.6).

Called inside a transaction by `knowledge` and `operator`: `erase` under the agent's role, then
`erase_mentions` as the service. Vectors go with their document. What is derived goes as well:

- a summary (`rolls_up`) with any of its sources: it is made again from those that are left,
- what has `evidence` with the last of it; while some is left it stays, without the quotation,
- an entity that nothing mentions any more, unless a person wrote it.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.schema.naming import qualified

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
# a key may say as much as a text; whoever repeats the call brings it along
_FORGET_KEYS = """
UPDATE {schema}.operations SET answer = jsonb_set(answer, '{key}', 'null')
WHERE answer ->> 'document_id' = ANY($1::text[]) AND answer ->> 'key' IS NOT NULL
"""
# A row that the embedding worker holds is left to it: it finds no document, and removes the row.
_UNQUEUE = """
DELETE FROM choir_memory.embedding_queue WHERE id IN (
    SELECT id FROM choir_memory.embedding_queue
    WHERE agent_id = $1 AND document_id = ANY($2::uuid[]) FOR UPDATE SKIP LOCKED)
"""
_ID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_RECEIPTS = f"""
SELECT id, receipt::text AS receipt FROM choir_memory.receipts
WHERE agent_id = $1 AND EXISTS (
    SELECT FROM regexp_matches(receipt::text, '{_ID}', 'g') AS said (ids)
    WHERE said.ids[1] = ANY($2::text[]))
"""  # noqa: S608 a pattern of ours
_CHANGE_RECEIPT = "UPDATE choir_memory.receipts SET receipt = $2::jsonb WHERE id = $1"
GONE = str(UUID(int=0))
"""Stands in receipts where an erased document was named."""


@dataclass(frozen=True, slots=True)
class Erased:
    """What is gone: documents of both stores, those that were asked for and those that stood on them."""

    session: tuple[UUID, ...]
    knowledge: tuple[UUID, ...]

    @property
    def ids(self) -> tuple[UUID, ...]:
        """Return all of them."""
        return self.session + self.knowledge


async def erase(held: Connection, agent_id: str, document_ids: Collection[UUID]) -> Erased:
    """Delete documents, and what only they supported; `held` is under the agent's role."""

    def sql(statement: str) -> str:
        return qualified(statement, agent_id)

    doomed = set(document_ids)
    while more := {row["id"] for row in await held.fetch(sql(_DEPENDENTS), list(doomed))}:
        doomed |= more
    ids = list(doomed)
    await held.execute(sql(_UNQUOTE), ids)
    await held.execute(sql(_UNLINK), ids)
    session = await held.fetch(sql(_DELETE_SESSION), ids)
    knowledge = await held.fetch(sql(_DELETE_KNOWLEDGE), ids)
    await held.execute(sql(_FORGET_KEYS), [str(one) for one in ids])
    return Erased(tuple(r["id"] for r in session), tuple(r["id"] for r in knowledge))


async def erase_mentions(held: Connection, agent_id: str, document_ids: Sequence[UUID]) -> None:
    """Take erased documents out of the queue and of the receipts; `held` is the service's own."""
    await held.execute(_UNQUEUE, agent_id, list(document_ids))
    names = [str(one) for one in document_ids]
    gone = frozenset(names)
    for row in await held.fetch(_RECEIPTS, agent_id, names):
        receipt = re.sub(_ID, lambda said: GONE if said[0] in gone else said[0], row["receipt"])
        await held.execute(_CHANGE_RECEIPT, row["id"], receipt)
