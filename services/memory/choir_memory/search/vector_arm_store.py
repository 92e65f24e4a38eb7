"""The vector arm: documents by the cosine similarity of their nearest passage.

In a large space the HNSW index is scanned once, and further only if the filters leave too few documents;
without an index all vectors are compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection, Record
from choir_memory.embedding.embedder import QueryVector
from choir_memory.search.candidates import ARM_LIMIT, ArmResult, parse_arm_results
from choir_memory.search.corpus_store import CorpusStatistics
from choir_memory.search.scope_store import SearchScope
from choir_memory.text.splitting import FIRST_SENTENCE_PART

_WHOLE = f"e.part < {FIRST_SENTENCE_PART}"
# The query's vector is a subquery everywhere: parsed once instead of once per row, also in a generic
# plan.
_VECTOR_ARM = """
WITH near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           (1 - min(e.embedding <=> (SELECT $1::halfvec)))::float8 AS score,
           (1 - min(e.embedding <=> (SELECT $1::halfvec)) FILTER (WHERE {whole}))::float8 AS whole_score
    FROM {embeddings} e {scoped_by_document} WHERE e.model = $3 AND {scope} GROUP BY 1, 2, 3
)
SELECT id, session_id, chunk_index, score, place,
       (SELECT avg(score) FROM near) AS mean, (SELECT stddev_pop(score) FROM near) AS deviation,
       (SELECT avg(whole_score) FROM near) AS whole_mean
FROM (SELECT *, row_number() OVER (ORDER BY score DESC, id) AS place FROM near) AS ranked
WHERE place <= $2 ORDER BY place
""".replace("{whole}", _WHOLE)
_SET_WIDTH = "SET LOCAL hnsw.ef_search = {width}"
# `ef_search` vectors at a time, until enough rows match the filters. To be able to continue, pgvector keeps
# all vectors that it has passed: a fifth of the cost of a scan, also of one that does not continue.
_CONTINUE_SCAN = "SET LOCAL hnsw.iterative_scan = relaxed_order"
EF_SEARCH, EF_SEARCH_DOCUMENTS = 200, 10_000
"""`ef_search` of HNSW for a space of 10,000 documents; it grows with the space.

With only as many as an arm returns most of the nearest are missed. With 200 of 100,000 documents
recall@10 is .97, with 400 .99; of a million with 400 .93, with 1,000 .98 (decision 42).
"""
EF_SEARCH_GROWTH = 0.35
MAX_EF_SEARCH = 1_000
"""The maximum that pgvector allows."""
# Model and dimensions are literals, because an expression index is used only if the expression matches.
# The query's vector is parsed once, and OFFSET 0 makes each cosine be computed once.
_INDEXED_VECTOR_ARM = """
WITH asked AS MATERIALIZED (SELECT $1::halfvec({dimensions}) AS question),
near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           e.embedding::halfvec({dimensions}) <=> (SELECT question FROM asked) AS distance
    FROM {embeddings} e {scoped_by_document} WHERE e.model = {model} AND {scope}
    ORDER BY e.embedding::halfvec({dimensions}) <=> (SELECT question FROM asked) LIMIT $2
),
sample AS (
    SELECT avg(score)::float8 AS mean, stddev_pop(score)::float8 AS deviation,
           avg(score) FILTER (WHERE whole)::float8 AS whole_mean
    FROM (SELECT 1 - (e.embedding <=> (SELECT question FROM asked)) AS score, {whole} AS whole
          FROM {embeddings} e TABLESAMPLE SYSTEM ($3) REPEATABLE (1)
          WHERE e.model = {model} OFFSET 0) AS picked
)
SELECT n.id, n.session_id, n.chunk_index, (1 - min(n.distance))::float8 AS score,
       row_number() OVER (ORDER BY min(n.distance), n.id) AS place, s.mean, s.deviation, s.whole_mean,
       (SELECT count(*) FROM near) AS passages
FROM near n CROSS JOIN sample s GROUP BY 1, 2, 3, s.mean, s.deviation, s.whole_mean ORDER BY place
""".replace("{whole}", _WHOLE)


@dataclass(frozen=True, slots=True)
class VectorResult:
    """The nearest documents, with mean and deviation of the similarity over the space to compare with."""

    hits: Sequence[ArmResult]
    mean: float
    deviation: float
    whole_mean: float
    """The mean without the vectors of single sentences."""


NO_VECTOR_RESULT = VectorResult((), 0.0, 0.0, 0.0)


async def search_vectors(
    connection: Connection,
    scope: SearchScope,
    corpus: CorpusStatistics,
    vector: QueryVector,
    depth: int = ARM_LIMIT,
    *,
    settings: Sequence[str] = (),
) -> VectorResult:
    """Return the documents nearest to `vector` by cosine similarity.

    `settings` are those of `index_settings` that the transaction began with, if any.
    """
    if corpus.has_index(vector.model):
        required = index_settings(corpus, vector, depth)
        if required != tuple(settings):
            await connection.execute("; ".join(required))
        return await _by_index(connection, scope, corpus, vector, depth)
    arguments = (vector.value, depth, vector.model, *scope.arguments)
    return _result(await connection.fetch(scope.sql(_VECTOR_ARM, 4), *arguments))


def ef_search_for(documents: int) -> int:
    """Return `ef_search` of HNSW for a space with this many documents."""
    grown: float = EF_SEARCH * max(1.0, documents / EF_SEARCH_DOCUMENTS) ** EF_SEARCH_GROWTH
    return min(MAX_EF_SEARCH, round(grown))


def index_settings(corpus: CorpusStatistics, vector: QueryVector, depth: int) -> tuple[str, ...]:
    """Return the settings of the transaction for a search by index; none if there is no index.

    They belong to the start of the transaction, where they cost no round trip.
    """
    if not corpus.has_index(vector.model):
        return ()
    return (_SET_WIDTH.format(width=max(depth, ef_search_for(corpus.documents))),)


async def _by_index(
    connection: Connection,
    scope: SearchScope,
    corpus: CorpusStatistics,
    vector: QueryVector,
    depth: int,
) -> VectorResult:
    statement = _INDEXED_VECTOR_ARM
    for name, part in (("{dimensions}", vector.dimensions), ("{model}", vector.model)):
        statement = statement.replace(name, str(part))
    sql = scope.sql(statement, 4)
    arguments = (vector.value, depth, corpus.vector_sample, *scope.arguments)
    rows = await connection.fetch(sql, *arguments)
    if not rows or rows[0]["passages"] < depth:
        await connection.execute(_CONTINUE_SCAN)
        rows = await connection.fetch(sql, *arguments)
    return _result(rows)


def _result(rows: Sequence[Record]) -> VectorResult:
    if not rows:
        return NO_VECTOR_RESULT
    first = rows[0]
    # a sample may be empty
    mean, deviation = first["mean"] or 0.0, first["deviation"] or 0.0
    return VectorResult(parse_arm_results(rows), mean, deviation, first["whole_mean"] or 0.0)
