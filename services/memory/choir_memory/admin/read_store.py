"""Statements that read an agent's memory for an operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection, Record
from choir_common.wire.memory_operator import (
    DocumentCount,
    DocumentView,
    Store,
    UnfinishedImport,
)
from choir_memory.admin.export_import_store import DOCUMENT_AS_JSON
from choir_memory.documents.status import KNOWLEDGE_STATUS, SESSION_STATUS, SUPERSEDED_BY
from choir_memory.schema.store import qualified, schema_name
from choir_memory.search.scope_store import SearchScope

PREVIEW_CHARS = 200
"""Characters of a text that a list shows."""

_VIEW = f"""
SELECT d.id, d.kind, left(d.text, {PREVIEW_CHARS}) AS text, length(d.text) AS length, d.version,
    d.origin, d.trust, {{columns}}
FROM {{documents}} d
WHERE ($1::timestamptz IS NULL OR ({{at}}, d.id) < ($1, $2::uuid))
  AND ($3::text IS NULL OR {{prefix}}) AND {{scope}}
ORDER BY {{at}} DESC, d.id DESC LIMIT $4
"""  # noqa: S608 our own columns
_OF_STORE = {
    "knowledge": {
        "{columns}": "d.key, NULL AS tier, NULL AS session_id, NULL AS speaker, {at} AS at, "
        f"{KNOWLEDGE_STATUS} AS status, NULL AS grain, NULL AS period, d.valid_from, d.valid_to, "
        f"{SUPERSEDED_BY} AS superseded_by",
        "{prefix}": "starts_with(d.key, $3)",
        "{at}": "d.updated_at",
    },
    "session": {
        "{columns}": "NULL AS key, d.tier, d.session_id, d.speaker, {at} AS at, "
        f"{SESSION_STATUS} AS status, d.grain, d.period, NULL AS valid_from, NULL AS valid_to, "
        "NULL AS superseded_by",
        "{prefix}": "false",
        "{at}": "d.happened_at",
    },
}
_WHICH_KNOWLEDGE = """
SELECT id FROM {schema}.knowledge_documents WHERE id = $1 OR key = $2 ORDER BY id = $1 DESC LIMIT 1
"""
_WHICH_UNIT = "SELECT id FROM {schema}.memory_documents WHERE id = $1"
_LOCK = "SELECT version FROM {schema}.{table} WHERE id = $1 FOR UPDATE"
_VECTORS = """
SELECT count(*) FROM {schema}.{table} e JOIN choir_memory.embedding_models m ON m.id = e.model
WHERE e.document_id = $1 AND m.state = 'active'
"""
_LINKS = f"""
SELECT l.kind, l.direction, l.other, left(coalesce(k.text, m.text), {PREVIEW_CHARS}) AS text FROM (
    SELECT kind, 'from' AS direction, to_id AS other FROM {{schema}}.links WHERE from_id = $1
    UNION ALL
    SELECT kind, 'to', from_id FROM {{schema}}.links WHERE to_id = $1 LIMIT 200) l
LEFT JOIN {{schema}}.knowledge_documents k ON k.id = l.other
LEFT JOIN {{schema}}.memory_documents m ON m.id = l.other
ORDER BY l.direction, l.kind, l.other
"""  # noqa: S608 a number of ours
_COUNTS = """
WITH active AS (SELECT id FROM choir_memory.embedding_models WHERE state = 'active')
SELECT 'knowledge' AS store, kind, NULL AS tier, count(*) AS documents,
    count(*) FILTER (WHERE kind <> 'entity' AND NOT EXISTS (
        SELECT FROM {schema}.knowledge_embeddings e, active
        WHERE e.document_id = d.id AND e.model = active.id)) AS without_vector
FROM {schema}.knowledge_documents d GROUP BY kind
UNION ALL
SELECT 'session', kind, tier, count(*),
    count(*) FILTER (WHERE keep_vectors AND NOT EXISTS (
        SELECT FROM {schema}.memory_embeddings e, active
        WHERE e.document_id = d.id AND e.model = active.id))
FROM {schema}.memory_documents d GROUP BY kind, tier
ORDER BY 1, 3, 2
"""
_QUEUED = "SELECT count(*) FROM choir_memory.embedding_queue WHERE agent_id = $1"
_BYTES = """
SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_catalog.pg_class
WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
"""
_IMPORTS = """
SELECT substr(name, 8) AS import_id, (position ->> 'done')::int AS done,
    (position ->> 'total')::int AS total
FROM choir_memory.cursors WHERE agent_id = $1 AND starts_with(name, 'import:') ORDER BY name
"""


@dataclass(frozen=True, slots=True)
class ListPosition:
    """Position of the last row of a page."""

    at: datetime
    document_id: UUID


@dataclass(frozen=True, slots=True)
class LinkedDocument:
    """A link of a document, with the beginning of the linked document's text."""

    kind: str
    direction: str
    other: UUID
    text: str | None


class MemoryReadStore:
    """Read access to one agent's memory on one connection."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def page(
        self,
        scope: SearchScope,
        *,
        key_prefix: str | None,
        after: ListPosition | None,
        limit: int,
    ) -> list[DocumentView]:
        """Return documents in a scope, newest first."""
        statement = _VIEW
        for name, part in _OF_STORE[scope.store].items():
            statement = statement.replace(name, part)
        rows = await self._connection.fetch(
            scope.sql(statement, 5),
            after and after.at,
            after and after.document_id,
            key_prefix,
            limit,
            *scope.arguments,
        )
        return [_view(scope.store, row) for row in rows]

    async def find(self, document_id: UUID | None, key: str) -> tuple[Store, UUID] | None:
        """Return the store and id of the document with this id, or else with this key."""
        knowledge = await self._connection.fetchval(self._sql(_WHICH_KNOWLEDGE), document_id, key)
        if knowledge is not None:
            return "knowledge", knowledge
        unit = await self._connection.fetchval(self._sql(_WHICH_UNIT), document_id)
        return ("session", unit) if unit is not None else None

    async def lock(self, store: Store, document_id: UUID) -> int | None:
        """Lock a document until the transaction ends; return its version."""
        table = "memory_documents" if store == "session" else "knowledge_documents"
        sql = self._sql(_LOCK.replace("{table}", table))
        version: int | None = await self._connection.fetchval(sql, document_id)
        return version

    async def record(self, store: Store, document_id: UUID) -> str | None:
        """Return a complete document as JSON."""
        record: str | None = await self._connection.fetchval(
            self._sql(DOCUMENT_AS_JSON[store]), document_id
        )
        return record

    async def vectors(self, store: Store, document_id: UUID) -> int:
        """Return how many vectors of the active model a document has."""
        table = "memory_embeddings" if store == "session" else "knowledge_embeddings"
        sql = self._sql(_VECTORS.replace("{table}", table))
        return int(await self._connection.fetchval(sql, document_id))

    async def links(self, document_id: UUID) -> list[LinkedDocument]:
        """Return the links of a document, up to 200 each way."""
        rows = await self._connection.fetch(self._sql(_LINKS), document_id)
        return [LinkedDocument(r["kind"], r["direction"], r["other"], r["text"]) for r in rows]

    async def counts(self) -> list[DocumentCount]:
        """Return how many documents of each kind there are."""
        rows = await self._connection.fetch(self._sql(_COUNTS))
        return [DocumentCount.model_validate(dict(row)) for row in rows]

    async def queued(self) -> int:
        """Return how many embedding jobs of this agent are pending."""
        return int(await self._connection.fetchval(_QUEUED, self._agent_id))

    async def bytes(self) -> int:
        """Return the disk usage of the agent's tables and indexes, in bytes."""
        return int(await self._connection.fetchval(_BYTES, schema_name(self._agent_id)))

    async def unfinished_imports(self) -> list[UnfinishedImport]:
        """Return the imports that have started and not finished."""
        rows: Sequence[Record] = await self._connection.fetch(_IMPORTS, self._agent_id)
        return [UnfinishedImport.model_validate(dict(row)) for row in rows]

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)


def _view(store: Store, row: Record) -> DocumentView:
    columns = {name: value for name, value in row.items() if name not in ("id", "superseded_by")}
    return DocumentView(
        document_id=str(row["id"]),
        store=store,
        superseded_by=tuple(map(str, row["superseded_by"] or ())),
        **columns,
    )
