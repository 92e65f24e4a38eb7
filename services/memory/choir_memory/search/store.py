"""The statements of the search arms, over one store of one agent.

Called by `recall` on a connection that may read that agent's schema.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection
from choir_common.wire.json import JsonObject
from choir_memory.schema.naming import qualified
from choir_memory.search.fuse import Scored

ARM_DEPTH = 100
"""Documents each arm names; deeper ones cannot reach the first ten of the fused order."""
MAX_TERMS = 16
"""The rarest terms of a query that are looked for; commoner ones cost much and tell little."""

# Information of a term: as in BM25. ts_rank of one term grows with its count and levels off, 0.0608
# for a single occurrence; the length of a document counts a little against it.
_TEXT_ARM = """
WITH terms AS MATERIALIZED (
    SELECT n::int AS n, term::tsquery AS term FROM unnest($1::text[]) WITH ORDINALITY AS t (term, n)
),
space AS MATERIALIZED (
    SELECT count(*)::float8 AS documents, greatest(avg(d.tokens), 1)::float8 AS mean_tokens
    FROM {documents} d WHERE {scope}
),
hits AS MATERIALIZED (
    SELECT t.n, d.id,
           ts_rank(d.tsv, t.term) / 0.06079271 / (0.9 + 0.1 * d.tokens / space.mean_tokens)
           AS weight
    FROM space, terms t JOIN {documents} d ON d.tsv @@ t.term WHERE {scope}
),
counts AS (SELECT n, count(*)::float8 AS documents FROM hits GROUP BY n),
known AS MATERIALIZED (
    SELECT t.n,
           ln(1 + (s.documents - coalesce(c.documents, 0) + 0.5) / (coalesce(c.documents, 0) + 0.5))
           AS information,
           row_number() OVER (ORDER BY c.documents NULLS LAST) AS place
    FROM space s, terms t LEFT JOIN counts c ON c.n = t.n
)
SELECT h.id,
       sum(h.weight * k.information) / (SELECT sum(information) FROM known WHERE place <= $2)
       AS score,
       row_number() OVER (ORDER BY sum(h.weight * k.information) DESC, h.id) AS place
FROM hits h JOIN known k ON k.n = h.n WHERE k.place <= $2
GROUP BY h.id ORDER BY place LIMIT $3
"""
# Exact: a thousand vectors take a millisecond, and an index loses rows under a filter.
_VECTOR_ARM = """
WITH near AS MATERIALIZED (
    SELECT e.document_id AS id, (1 - min(e.embedding <=> $1::text::halfvec))::float8 AS score
    FROM {embeddings} e {scoped_by_document} WHERE {scope} GROUP BY 1
)
SELECT id, score, place FROM (
    SELECT id, score, row_number() OVER (ORDER BY score DESC, id) AS place FROM near
) AS ranked
WHERE place <= $2 OR id = ANY($3::uuid[]) ORDER BY place
"""
_IN_ORDER = """
SELECT d.id FROM {documents} d WHERE {scope} ORDER BY d.session_id, d.tier, d.chunk_index LIMIT $1
"""
_READ = """
SELECT id, {key} AS key, text, created_at, {updated_at} AS updated_at, metadata, {origin} AS origin
FROM {documents} WHERE id = ANY($1)
"""
_JOINED = "JOIN {documents} d ON d.id = e.document_id"
_SESSION_ORIGIN = "jsonb_build_object('session_id', session_id, 'tier', tier)"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which documents of which agent are searched."""

    agent_id: str
    store: Literal["session", "knowledge"]
    tiers: tuple[str, ...] = ()
    session_id: str | None = None

    @property
    def arguments(self) -> tuple[object, ...]:
        """Return the values of the placeholders in `condition`."""
        if self.store == "knowledge":
            return ()
        return (list(self.tiers), self.session_id)

    def condition(self, first: int) -> str:
        """Return the WHERE clause, whose placeholders count from `first`."""
        if self.store == "knowledge":
            return "TRUE"
        named = f"(${first + 1}::text IS NULL OR d.session_id = ${first + 1})"
        return f"d.tier = ANY(${first}::text[]) AND {named}"


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it is shown."""

    document_id: UUID
    key: str | None
    text: str
    created_at: datetime
    updated_at: datetime
    metadata: JsonObject


class SearchStore:
    """Runs the arms on one connection over one scope."""

    def __init__(self, held: Connection, scope: Scope) -> None:
        self._held = held
        self._scope = scope

    async def text_arm(self, terms: Sequence[str]) -> list[Scored]:
        """Return the documents that hold the query's rarest terms, by the share they hold."""
        quoted = [f"'{term}'" for term in terms]
        return await self._scored(_TEXT_ARM, 4, quoted, MAX_TERMS, ARM_DEPTH)

    async def vector_arm(self, vector: str, also: Sequence[UUID]) -> list[Scored]:
        """Return the documents nearest to `vector` (pgvector's text form), by cosine.

        Those of `also` are named too, however far: without their cosine they could not be weighed
        against documents that both arms found.
        """
        return await self._scored(_VECTOR_ARM, 4, vector, ARM_DEPTH, list(also))

    async def in_order(self, limit: int) -> list[UUID]:
        """Return the first documents of a session in the order they were lived."""
        rows = await self._held.fetch(self._sql(_IN_ORDER, 2), limit, *self._scope.arguments)
        return [row["id"] for row in rows]

    async def read(self, document_ids: Sequence[UUID]) -> dict[UUID, Stored]:
        """Return the documents that still exist."""
        rows = await self._held.fetch(self._sql(_READ, 2), list(document_ids))
        return {
            row["id"]: Stored(
                row["id"],
                row["key"],
                row["text"],
                row["created_at"],
                row["updated_at"],
                orjson.loads(row["metadata"]) | orjson.loads(row["origin"]),
            )
            for row in rows
        }

    async def _scored(self, statement: str, first: int, *arguments: object) -> list[Scored]:
        sql = self._sql(statement, first)
        rows = await self._held.fetch(sql, *arguments, *self._scope.arguments)
        return [Scored(row["id"], row["place"], row["score"]) for row in rows]

    def _sql(self, statement: str, first: int) -> str:
        session = self._scope.store == "session"
        tables = "memory" if session else "knowledge"
        parts = {
            # the join costs as much as the distances, and all knowledge is in scope
            "{scoped_by_document}": _JOINED if session else "",
            "{documents}": f"{{schema}}.{tables}_documents",
            "{embeddings}": f"{{schema}}.{tables}_embeddings",
            "{scope}": self._scope.condition(first),
            "{key}": "NULL" if session else "key",
            "{updated_at}": "created_at" if session else "updated_at",
            "{origin}": _SESSION_ORIGIN if session else "'{}'::jsonb",
        }
        for name, part in parts.items():
            statement = statement.replace(name, part)
        return qualified(statement, self._scope.agent_id)
