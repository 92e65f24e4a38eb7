"""The vector arm: documents by the cosine of their nearest passage.

Called by `recall` on a connection that may read the agent's schema.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.pool import Connection
from choir_memory.embedding.port import QueryVector
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH, Scored, scored_rows

# Exact: a thousand vectors take a millisecond, and an index loses rows under a filter.
_VECTOR_ARM = """
WITH near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           (1 - min(e.embedding <=> $1::text::halfvec))::float8 AS score
    FROM {embeddings} e {scoped_by_document} WHERE e.model = $3 AND {scope} GROUP BY 1, 2, 3
)
SELECT id, session_id, chunk_index, score, place,
       (SELECT avg(score) FROM near) AS mean, (SELECT stddev_pop(score) FROM near) AS deviation
FROM (SELECT *, row_number() OVER (ORDER BY score DESC, id) AS place FROM near) AS ranked
WHERE place <= $2 ORDER BY place
"""


@dataclass(frozen=True, slots=True)
class VectorFound:
    """The nearest documents, and how near any document is: without that, a cosine says little."""

    hits: Sequence[Scored]
    mean: float
    deviation: float


NO_VECTORS = VectorFound((), 0.0, 0.0)


async def vector_arm(
    held: Connection, scope: Scope, vector: QueryVector, depth: int = ARM_DEPTH
) -> VectorFound:
    """Return the documents nearest to `vector`, by cosine."""
    arguments = (vector.text, depth, vector.model, *scope.arguments)
    rows = await held.fetch(scope.sql(_VECTOR_ARM, 4), *arguments)
    if not rows:
        return NO_VECTORS
    return VectorFound(scored_rows(rows), rows[0]["mean"], rows[0]["deviation"])
