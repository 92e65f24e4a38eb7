"""The vector arm: documents by the cosine of their nearest passage.

Called by `find` on a connection that may read the agent's schema. A large space has an index
(`growth`), which is followed until enough documents have passed the filters; before that all are scanned.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection
from choir_memory.embedding.port import QueryVector
from choir_memory.search.corpus_store import Corpus
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH, Scored, scored_rows

# The question's vector is a subquery everywhere: read once, not once a row, also when the plan is a kept one.
_VECTOR_ARM = """
WITH near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           (1 - min(e.embedding <=> (SELECT $1::text::halfvec)))::float8 AS score
    FROM {embeddings} e {scoped_by_document} WHERE e.model = $3 AND {scope} GROUP BY 1, 2, 3
)
SELECT id, session_id, chunk_index, score, place,
       (SELECT avg(score) FROM near) AS mean, (SELECT stddev_pop(score) FROM near) AS deviation
FROM (SELECT *, row_number() OVER (ORDER BY score DESC, id) AS place FROM near) AS ranked
WHERE place <= $2 ORDER BY place
"""
# `ef_search` vectors at a time, as near as HNSW finds them, until enough rows have passed the filters
_FOLLOW_INDEX = """
SET LOCAL hnsw.iterative_scan = relaxed_order; SET LOCAL hnsw.ef_search = {width}
"""
WIDTH, WIDTH_FOR = 200, 10_000
"""Vectors that HNSW keeps in view for so many documents: with as few as an arm names it misses most of the
nearest. Ten times the documents want twice as many: with 200 of 100,000 it finds .97 of the true ten, with
400 .99; of a million with 400 .93, with 1,000 .98 (decision 42)."""
WIDTH_GROWS = 0.35
MOST_WIDTH = 1_000
"""pgvector takes no more."""
# Model and length stand in the statement itself: an index over an expression is found by nothing else. The
# question is read once, not once a row, and OFFSET 0 lets each cosine be taken once.
_INDEXED_VECTOR_ARM = """
WITH asked AS MATERIALIZED (SELECT $1::text::halfvec({dimensions}) AS question),
near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           e.embedding::halfvec({dimensions}) <=> (SELECT question FROM asked) AS distance
    FROM {embeddings} e {scoped_by_document} WHERE e.model = {model} AND {scope}
    ORDER BY e.embedding::halfvec({dimensions}) <=> (SELECT question FROM asked) LIMIT $2
),
sample AS (
    SELECT avg(score)::float8 AS mean, stddev_pop(score)::float8 AS deviation
    FROM (SELECT 1 - (e.embedding <=> (SELECT question FROM asked)) AS score
          FROM {embeddings} e TABLESAMPLE SYSTEM ($3) REPEATABLE (1)
          WHERE e.model = {model} OFFSET 0) AS picked
)
SELECT n.id, n.session_id, n.chunk_index, (1 - min(n.distance))::float8 AS score,
       row_number() OVER (ORDER BY min(n.distance), n.id) AS place, s.mean, s.deviation
FROM near n CROSS JOIN sample s GROUP BY 1, 2, 3, s.mean, s.deviation ORDER BY place
"""


@dataclass(frozen=True, slots=True)
class VectorFound:
    """The nearest documents, and how near any document is: without that, a cosine says little."""

    hits: Sequence[Scored]
    mean: float
    deviation: float


NO_VECTORS = VectorFound((), 0.0, 0.0)


async def vector_arm(
    held: Connection, scope: Scope, corpus: Corpus, vector: QueryVector, depth: int = ARM_DEPTH
) -> VectorFound:
    """Return the documents nearest to `vector`, by cosine."""
    if corpus.has_index(vector.model):
        return await _by_index(held, scope, corpus, vector, depth)
    arguments = (vector.text, depth, vector.model, *scope.arguments)
    rows = await held.fetch(scope.sql(_VECTOR_ARM, 4), *arguments)
    if not rows:
        return NO_VECTORS
    return VectorFound(scored_rows(rows), rows[0]["mean"], rows[0]["deviation"])


def width_for(documents: int) -> int:
    """Return how many vectors HNSW is to keep in view in a space of so many documents."""
    grown: float = WIDTH * max(1.0, documents / WIDTH_FOR) ** WIDTH_GROWS
    return min(MOST_WIDTH, round(grown))


async def _by_index(
    held: Connection, scope: Scope, corpus: Corpus, vector: QueryVector, depth: int
) -> VectorFound:
    statement = _INDEXED_VECTOR_ARM
    for name, part in (("{dimensions}", vector.dimensions), ("{model}", vector.model)):
        statement = statement.replace(name, str(part))
    await held.execute(_FOLLOW_INDEX.format(width=max(depth, width_for(corpus.documents))))
    rows = await held.fetch(
        scope.sql(statement, 4), vector.text, depth, corpus.vector_sample, *scope.arguments
    )
    if not rows:
        return NO_VECTORS
    return VectorFound(scored_rows(rows), rows[0]["mean"] or 0.0, rows[0]["deviation"] or 0.0)
