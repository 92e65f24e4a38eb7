"""The full-text arm of a large space: retrieves and scores documents by the query's rarest terms.

Common terms are known from the statistics (`corpus_store`) and only contribute to scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection, Record
from choir_memory.search.candidate_columns_store import quote_terms
from choir_memory.search.candidates import ARM_LIMIT, ArmResult, parse_arm_results
from choir_memory.search.corpus_store import CorpusStatistics
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.term_selection import select_terms

MAX_TERMS = 16
"""Number of the rarest terms of a query that are used; common ones are expensive and discriminate little."""
CANDIDATES_PER_RESULT = 2
"""Candidates scored by all terms for each document to return; chosen by their information."""

# Information of a term as in BM25. ts_rank of one term grows with its count and levels off, 0.0608 for a
# single occurrence; longer documents score slightly lower. Rare terms retrieve; the documents with the
# most information are scored by all terms.
_TEXT_ARM = """
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
class TextResult:
    """Results of the full-text arm, and the frequency of its terms in the space."""

    hits: Sequence[ArmResult]
    terms: Sequence[str]
    """The rarest terms of the query."""
    counts: Sequence[int]
    """Number of documents that contain each term."""
    documents: int
    mean_tokens: float


NO_TEXT_RESULT = TextResult((), (), (), 0, 1.0)


async def search_text(
    connection: Connection,
    scope: SearchScope,
    corpus: CorpusStatistics,
    terms: Sequence[str],
    depth: int = ARM_LIMIT,
) -> TextResult:
    """Return documents that contain the query's rarest terms, ordered by their share of its information."""
    selection = select_terms(terms, corpus, MAX_TERMS)
    arguments = (
        quote_terms(selection.terms),
        selection.document_counts,
        [" & ".join(quote_terms(finder)) for finder in selection.finders],
        selection.rows,
        float(corpus.documents),
        corpus.mean_tokens,
        CANDIDATES_PER_RESULT * depth,
        depth,
    )
    sql = scope.sql(_TEXT_ARM, len(arguments) + 1)
    return _build_text_result(
        await connection.fetch(sql, *arguments, *scope.arguments), selection.terms
    )


def _build_text_result(rows: Sequence[Record], terms: Sequence[str]) -> TextResult:
    if not rows:
        return NO_TEXT_RESULT
    best = rows[0]
    return TextResult(
        parse_arm_results(rows),
        [terms[number - 1] for number in best["terms"]],
        best["counts"],
        best["documents"],
        best["mean_tokens"],
    )
