"""Statements that select the documents of a `ForgetSelection`, in one agent's schema.

All require the agent's role, except `list_written`, which reads the audit log under the service's role.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_forget import ForgetSelection
from choir_common.wire.memory_operator import Store
from choir_memory.admin.read_store import PREVIEW_CHARS
from choir_memory.audit.store import actor_name
from choir_memory.schema.store import qualified
from choir_memory.search.candidate_columns_store import quote_terms
from choir_memory.text.tokens import query_terms

# a message that overlaps the period belongs to it; `$4` also selects summaries of periods by their words
_UNITS = """
SELECT id FROM {schema}.memory_documents
WHERE (session_id IS NOT NULL OR ($4::text IS NOT NULL AND $1::text IS NULL AND $2::timestamptz IS NULL))
  AND ($1::text IS NULL OR session_id = $1)
  AND ($2::timestamptz IS NULL OR coalesce(ended_at, happened_at) >= $2)
  AND ($3::timestamptz IS NULL OR happened_at < $3)
  AND ($4::text IS NULL OR tsv @@ $4::text::tsquery)
"""
# a chunk of a collection stays: it is a part of a document that an operator added as a whole
_KNOWLEDGE = """
SELECT id FROM {schema}.knowledge_documents d
WHERE kind NOT IN ('document_chunk', 'entity') AND tsv @@ $3::text::tsquery
  AND ($1::timestamptz IS NULL OR coalesce(happened_at, created_at) >= $1)
  AND ($2::timestamptz IS NULL OR coalesce(happened_at, created_at) < $2)
"""
_LEARNED_WITHOUT_SOURCE = """
SELECT id FROM {schema}.knowledge_documents d
WHERE kind IN ('fact', 'rule', 'episode', 'error')
  AND ($1::text IS NULL OR metadata ->> 'session_id' = $1)
  AND ($2::timestamptz IS NULL OR happened_at >= $2)
  AND ($3::timestamptz IS NULL OR happened_at < $3)
  AND NOT EXISTS (SELECT FROM {schema}.links l
                  WHERE l.from_id = d.id AND l.kind IN ('evidence', 'rolls_up'))
"""
_EXISTING_NOTES = """
SELECT id FROM {schema}.knowledge_documents WHERE id = ANY($1::uuid[]) AND kind = 'note'
"""
# The newest text counts: a note that was written again later, or by an operator, is not from this session.
_WRITTEN = """
WITH written AS (
    SELECT DISTINCT ON (document_id) document_id, actor, detail ->> 'session' AS session_id, at
    FROM choir_memory.audit CROSS JOIN unnest(document_ids) AS document_id
    WHERE agent_id = $1 AND operation IN ('inserted', 'updated') AND NOT detail ? 'validity'
    ORDER BY document_id, id DESC
)
SELECT document_id AS id FROM written
WHERE actor = $2 AND ($3::text IS NULL OR session_id = $3)
  AND ($4::timestamptz IS NULL OR at >= $4) AND ($5::timestamptz IS NULL OR at < $5)
"""
_REPEATING = """
SELECT l.from_id AS id FROM {schema}.links l JOIN {schema}.memory_documents d ON d.id = l.from_id
WHERE l.kind = 'rolls_up' AND l.to_id = ANY($1::uuid[]) AND l.from_id <> ALL($1::uuid[])
"""
_SHOW = """
SELECT id, 'session' AS store, kind, NULL AS key, session_id, happened_at AS at, version,
       left(text, $2) AS text
FROM {schema}.memory_documents WHERE id = ANY($1::uuid[])
UNION ALL
SELECT id, 'knowledge', kind, key, metadata ->> 'session_id', coalesce(happened_at, created_at), version,
       left(text, $2)
FROM {schema}.knowledge_documents WHERE id = ANY($1::uuid[])
ORDER BY at, id
"""
# neither its user nor another session has confirmed it
_HELD = """
SELECT d.id FROM {schema}.knowledge_documents d
WHERE d.status = 'held' AND d.kind IN ('fact', 'rule') AND EXISTS (
        SELECT FROM {schema}.links l
        WHERE l.from_id = d.id AND l.kind = 'evidence' AND l.to_id = ANY($1::uuid[]))
  AND NOT EXISTS (
        SELECT FROM {schema}.links l
        WHERE l.from_id = d.id AND l.kind = 'evidence' AND l.to_id <> ALL($1::uuid[]))
"""
# A writer of facts or summaries locks its sources: the eraser waits for it, and then finds what it wrote.
_LOCK = """
SELECT id FROM {schema}.memory_documents WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
"""
_LOSING_A_SOURCE = """
SELECT DISTINCT from_id AS id FROM {schema}.links
WHERE kind = 'evidence' AND to_id = ANY($1::uuid[]) AND from_id <> ALL($2::uuid[])
"""
_UNQUOTE = """
UPDATE {schema}.knowledge_documents SET evidence = NULL
WHERE evidence IS NOT NULL AND id IN (
    SELECT from_id FROM {schema}.links WHERE kind = 'evidence' AND to_id = ANY($1::uuid[]))
"""
_UNLINK_EVIDENCE = """
DELETE FROM {schema}.links WHERE kind = 'evidence' AND to_id = ANY($1::uuid[])
"""
_MARK_UNLEARNED = """
UPDATE {schema}.memory_documents SET metadata = metadata || '{"unlearned": true}'
WHERE id = ANY($1::uuid[]) AND session_id IS NOT NULL
"""
_SESSIONS = """
SELECT DISTINCT session_id FROM {schema}.memory_documents
WHERE id = ANY($1::uuid[]) AND session_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class SelectedDocument:
    """A document of a selection, with the beginning of its text."""

    document_id: UUID
    store: Store
    kind: str
    key: str | None
    session_id: str | None
    at: datetime
    version: int
    text: str


async def list_written(
    connection: Connection, agent_id: str, selection: ForgetSelection
) -> list[UUID]:
    """Return the documents whose text the agent wrote in the selection's session and period."""
    rows = await connection.fetch(
        _WRITTEN,
        agent_id,
        actor_name(agent_id),
        selection.session_id,
        selection.since,
        selection.until,
    )
    return [row["id"] for row in rows]


class ForgetStore:
    """Selections of one agent's documents, on a connection under its role."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def list_units(self, selection: ForgetSelection) -> set[UUID]:
        """Return the units of sessions that the selection names."""
        conditions = (selection.session_id, selection.since, selection.until)
        return await self._ids(_UNITS, *conditions, _parse_words(selection))

    async def list_knowledge(self, selection: ForgetSelection) -> set[UUID]:
        """Return the knowledge with the selection's words, without chunks of collections and entities."""
        words = _parse_words(selection)
        return await self._ids(_KNOWLEDGE, selection.since, selection.until, words)

    async def list_learned_without_source(self, selection: ForgetSelection) -> set[UUID]:
        """Return what was learned in the selection's session and period from messages that are gone."""
        conditions = (selection.session_id, selection.since, selection.until)
        return await self._ids(_LEARNED_WITHOUT_SOURCE, *conditions)

    async def list_notes(self, document_ids: Collection[UUID]) -> set[UUID]:
        """Return which of these documents exist and are notes."""
        return await self._ids(_EXISTING_NOTES, list(document_ids))

    async def list_repeating(self, document_ids: Collection[UUID]) -> set[UUID]:
        """Return the time summaries of these documents, and the coarser summaries of those."""
        sources, reached = set(document_ids), set(document_ids)
        while summaries := await self._ids(_REPEATING, list(reached)):
            reached |= summaries
        return reached - sources

    async def list_held(self, document_ids: Collection[UUID]) -> set[UUID]:
        """Return the held facts and rules whose evidence is in these documents alone."""
        return await self._ids(_HELD, list(document_ids))

    async def lock(self, document_ids: Collection[UUID]) -> None:
        """Lock these units against changes and new evidence links until the transaction ends."""
        await self._ids(_LOCK, list(document_ids))

    async def list_losing_a_source(
        self, sources: Collection[UUID], erased: Collection[UUID]
    ) -> set[UUID]:
        """Return the documents outside of `erased` that rest on one of `sources`."""
        return await self._ids(_LOSING_A_SOURCE, list(sources), list(erased))

    async def list_sessions(self, document_ids: Collection[UUID]) -> list[str]:
        """Return the sessions of these units."""
        rows = await self._connection.fetch(self._sql(_SESSIONS), list(document_ids))
        return [row["session_id"] for row in rows]

    async def show(self, document_ids: Collection[UUID]) -> list[SelectedDocument]:
        """Return these documents, oldest first."""
        rows = await self._connection.fetch(self._sql(_SHOW), list(document_ids), PREVIEW_CHARS)
        return [
            SelectedDocument(
                row["id"],
                row["store"],
                row["kind"],
                row["key"],
                row["session_id"],
                row["at"],
                row["version"],
                row["text"],
            )
            for row in rows
        ]

    async def stop_learning(self, sources: Collection[UUID]) -> None:
        """Remove these documents as evidence of others, and mark them as not to be learned from."""
        ids = list(sources)
        for statement in (_UNQUOTE, _UNLINK_EVIDENCE, _MARK_UNLEARNED):
            await self._connection.execute(self._sql(statement), ids)

    async def _ids(self, statement: str, *arguments: object) -> set[UUID]:
        rows = await self._connection.fetch(self._sql(statement), *arguments)
        return {row["id"] for row in rows}

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _parse_words(selection: ForgetSelection) -> str | None:
    """Return the selection's words as the text of a tsquery that requires all of them."""
    if selection.words is None:
        return None
    return " & ".join(quote_terms(query_terms(selection.words)))
