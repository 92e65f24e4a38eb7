"""Read what the fusion weighs: the candidates of the arms, and what stands around them.

Called by `recall` on a connection that may read the agent's schema. Neither text nor vector leaves the
database: a row says how often it holds each term, and how near its nearest passage is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from uuid import UUID

from choir_common.postgres.pool import Connection, Record
from choir_memory.embedding.port import QueryVector
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import Scored

REACH = 2
"""Places to either side that say something about a document."""

_NEAREST = """
(SELECT (1 - min(e.embedding <=> (SELECT $4::text::halfvec)))::float8 FROM {embeddings} e
 WHERE e.document_id = d.id AND e.model = $7::int)
"""
# ts_rank of a single term is 0.0608 times the sum of 1/i² up to its count
_HELD = """
CASE WHEN d.tsv @@ $6::text::tsquery THEN
    ARRAY(SELECT ts_rank(d.tsv, t.term::tsquery) FROM unnest($5::text[]) AS t (term))
END
"""
_MATERIAL = """
WITH wanted AS (
    SELECT unnest($1::uuid[]) AS id
    UNION
    SELECT d.id FROM unnest($2::text[], $3::int[]) AS place (name, at)
    JOIN {documents} d ON {group} = place.name
        AND d.chunk_index BETWEEN place.at - {reach} AND place.at + {reach} AND {around}
)
SELECT d.id, {place}, d.tokens, {speaker} AS speaker, {asking} AS asking, {happened_at} AS happened_at,
       {nearest} AS cosine, {held} AS held, ({scope}) AS eligible
FROM wanted JOIN {documents} d USING (id)
"""
_RANK_OF_ONE = 0.06079271
_SUMS = (1.0, 1.25, 1.361111, 1.423611, 1.463611, 1.491389, 1.511797, 1.527422, 1.539768, 1.549768)


@dataclass(frozen=True, slots=True)
class Material:
    """A document as the fusion sees it; `counts` maps the number of a term to how often it is held."""

    document_id: UUID
    session_id: str | None
    position: int | None
    tokens: int
    speaker: str | None
    asking: float
    happened_at: datetime
    cosine: float | None
    counts: dict[int, int]
    eligible: bool
    """Whether the filters let it be found; what stands around it may be told, and weighs, all the same."""


async def read_material(
    held: Connection,
    scope: Scope,
    candidates: Iterable[Scored],
    vector: QueryVector | None,
    terms: Sequence[str],
) -> list[Material]:
    """Return the candidates and what stands up to two places from them."""
    listed = {one.document_id: one for one in candidates}
    if not listed:
        return []
    placed = [one for one in listed.values() if one.session_id is not None]
    quoted = [f"'{term}'" for term in terms]
    arguments = (
        list(listed),
        [one.session_id for one in placed],
        [one.chunk_index for one in placed],
        vector.text if vector else None,
        quoted,
        " | ".join(quoted),
        vector.model if vector else None,
    )
    around = scope.surroundings()
    first = len(arguments) + 1
    statement = _sql(scope, around, first, nearest=vector is not None)
    rows = await held.fetch(statement, *arguments, *around.arguments, *scope.arguments)
    return [_material(row) for row in rows]


def _sql(scope: Scope, around: Scope, first: int, *, nearest: bool) -> str:
    session = scope.store == "session"
    parts = {
        "{around}": around.condition(first),
        "{group}": "d.session_id" if session else "d.collection",
        "{reach}": str(REACH),
        "{speaker}": "d.speaker" if session else "NULL::text",
        "{asking}": "d.asking" if session else "0::real",
        # without a vector the table of vectors is not touched; both placeholders are NULL then
        "{nearest}": _NEAREST if nearest else "coalesce($4::text, $7::int::text)::float8",
        "{held}": _HELD,
    }
    statement = _MATERIAL
    for name, part in parts.items():
        statement = statement.replace(name, part)
    return scope.sql(statement, first + len(around.arguments))


def _material(row: Record) -> Material:
    return Material(
        row["id"],
        row["session_id"],
        row["chunk_index"],
        row["tokens"],
        row["speaker"],
        row["asking"],
        row["happened_at"],
        row["cosine"],
        {at: _count(rank) for at, rank in enumerate(row["held"] or ()) if rank > 0},
        row["eligible"],
    )


@lru_cache(maxsize=1_024)
def _count(rank: float) -> int:
    """Return how often a term is held, from Postgres' rank of it; more than ten are ten."""
    found = rank / _RANK_OF_ONE
    return min(range(len(_SUMS)), key=lambda at: abs(_SUMS[at] - found)) + 1
