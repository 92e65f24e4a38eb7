"""The full-text arm: one statement that finds and weighs documents by the query's rarest terms.

Called by `recall` on a connection that may read the agent's schema.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH, Scored, scored_rows

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
    SELECT t.n, d.id, {place},
           ts_rank(d.tsv, t.term) / 0.06079271 / (0.9 + 0.1 * d.tokens / space.mean_tokens)
           AS weight
    FROM space, terms t JOIN {documents} d ON d.tsv @@ t.term WHERE {scope}
),
counts AS (SELECT n, count(*)::float8 AS documents FROM hits GROUP BY n),
known AS MATERIALIZED (
    SELECT t.n, coalesce(c.documents, 0)::int AS documents,
           ln(1 + (s.documents - coalesce(c.documents, 0) + 0.5) / (coalesce(c.documents, 0) + 0.5))
           AS information,
           row_number() OVER (ORDER BY c.documents NULLS LAST) AS place
    FROM space s, terms t LEFT JOIN counts c ON c.n = t.n
)
SELECT h.id, h.session_id, h.chunk_index,
       sum(h.weight * k.information) / (SELECT sum(information) FROM known WHERE place <= $2)
       AS score,
       row_number() OVER (ORDER BY sum(h.weight * k.information) DESC, h.id) AS place,
       (SELECT array_agg(n ORDER BY n) FROM known WHERE place <= $2) AS terms,
       (SELECT array_agg(documents ORDER BY n) FROM known WHERE place <= $2) AS counts,
       (SELECT documents FROM space) AS documents, (SELECT mean_tokens FROM space) AS mean_tokens
FROM hits h JOIN known k ON k.n = h.n WHERE k.place <= $2
GROUP BY h.id, h.session_id, h.chunk_index ORDER BY place LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class TextFound:
    """What full text found, and what the space holds of the terms it looked for."""

    hits: Sequence[Scored]
    terms: Sequence[str]
    """The rarest of the query's terms."""
    counts: Sequence[int]
    """How many documents hold each."""
    documents: int
    mean_tokens: float


NOTHING = TextFound((), (), (), 0, 1.0)


async def text_arm(
    held: Connection, scope: Scope, terms: Sequence[str], depth: int = ARM_DEPTH
) -> TextFound:
    """Return the documents that hold the query's rarest terms, by the share of information they hold."""
    quoted = [f"'{term}'" for term in terms]
    sql = scope.sql(_TEXT_ARM, 4)
    rows = await held.fetch(sql, quoted, MAX_TERMS, depth, *scope.arguments)
    if not rows:
        return NOTHING
    best = rows[0]
    return TextFound(
        scored_rows(rows),
        [terms[number - 1] for number in best["terms"]],
        best["counts"],
        best["documents"],
        best["mean_tokens"],
    )
