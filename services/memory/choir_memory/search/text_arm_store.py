"""The full-text arm: one statement that finds and weighs documents by the query's rarest terms.

Called by `recall` on a connection that may read the agent's schema. A small space, and a part of one that an
index leads to, is counted as it is; of a large one the common words are known beforehand (`corpora`) and only
weigh.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection, Record
from choir_memory.search.corpus_store import Corpus
from choir_memory.search.finders import choose
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH, Scored, scored_rows

MAX_TERMS = 16
"""The rarest terms of a query that are looked for; commoner ones cost much and tell little."""
WEIGHED = 100
"""Documents of a large space, the most promising ones, whose every term is weighed: twice an arm's depth."""

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
# Rare words find; those documents that hold most of their information are weighed by all words.
_LARGE_TEXT_ARM = """
WITH found AS MATERIALIZED (
    SELECT f.n, d.id
    FROM unnest($3::text[]) WITH ORDINALITY AS f (finder, n)
    CROSS JOIN LATERAL (
        SELECT d.id FROM {documents} d WHERE d.tsv @@ f.finder::tsquery AND {scope} LIMIT $4
    ) AS d
),
counts AS (SELECT n, count(*)::float8 AS documents FROM found GROUP BY n),
known AS MATERIALIZED (
    SELECT t.n, t.term::tsquery AS term, h.documents,
           ln(1 + greatest($5::float8 - h.documents + 0.5, 0) / (h.documents + 0.5)) AS information
    FROM unnest($1::text[], $2::float8[]) WITH ORDINALITY AS t (term, held, n)
    LEFT JOIN counts c ON c.n = t.n
    CROSS JOIN LATERAL (SELECT coalesce(t.held, c.documents, 0) AS documents) AS h
),
promising AS MATERIALIZED (
    SELECT f.id FROM found f JOIN known k ON k.n = f.n
    GROUP BY f.id ORDER BY sum(k.information) DESC, f.id LIMIT $7
),
weighed AS (
    SELECT d.id, {place},
           (SELECT sum(k.information * ts_rank(d.tsv, k.term)) FROM known k)
           / 0.06079271 / (0.9 + 0.1 * d.tokens / $6::float8)
           / (SELECT sum(information) FROM known) AS score
    FROM promising p JOIN {documents} d ON d.id = p.id
)
SELECT *, row_number() OVER (ORDER BY score DESC, id) AS place,
       (SELECT array_agg(n::int ORDER BY n) FROM known) AS terms,
       (SELECT array_agg(documents::int ORDER BY n) FROM known) AS counts,
       $5::int AS documents, $6::float8 AS mean_tokens
FROM weighed ORDER BY place LIMIT $8
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
    held: Connection, scope: Scope, corpus: Corpus, terms: Sequence[str], depth: int = ARM_DEPTH
) -> TextFound:
    """Return the documents that hold the query's rarest terms, by the share of information they hold."""
    if corpus.is_large and not scope.is_narrow:
        return await _in_large(held, scope, corpus, terms, depth)
    sql = scope.sql(_TEXT_ARM, 4)
    quoted = [_quoted(term) for term in terms]
    rows = await held.fetch(sql, quoted, MAX_TERMS, depth, *scope.arguments)
    return _found(rows, terms)


async def _in_large(
    held: Connection, scope: Scope, corpus: Corpus, terms: Sequence[str], depth: int
) -> TextFound:
    chosen = choose(terms, corpus, MAX_TERMS)
    arguments = (
        [_quoted(term) for term in chosen.terms],
        chosen.held,
        [" & ".join(map(_quoted, finder)) for finder in chosen.finders],
        chosen.rows,
        float(corpus.documents),
        corpus.mean_tokens,
        WEIGHED,
        depth,
    )
    sql = scope.sql(_LARGE_TEXT_ARM, len(arguments) + 1)
    return _found(await held.fetch(sql, *arguments, *scope.arguments), chosen.terms)


def _found(rows: Sequence[Record], terms: Sequence[str]) -> TextFound:
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


def _quoted(term: str) -> str:
    return f"'{term}'"
