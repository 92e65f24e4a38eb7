"""The vector arm: documents by the cosine of their nearest passage.

Called by `recall` on a connection that may read the agent's schema.
"""

from collections.abc import Sequence
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.embedding.port import QueryVector
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH, Scored, scored_rows

# Exact: a thousand vectors take a millisecond, and an index loses rows under a filter.
_VECTOR_ARM = """
WITH near AS MATERIALIZED (
    SELECT e.document_id AS id, {place},
           (1 - min(e.embedding <=> $1::text::halfvec))::float8 AS score
    FROM {embeddings} e {scoped_by_document} WHERE e.model = $4 AND {scope} GROUP BY 1, 2, 3
)
SELECT id, session_id, chunk_index, score, place FROM (
    SELECT *, row_number() OVER (ORDER BY score DESC, id) AS place FROM near
) AS ranked
WHERE place <= $2 OR id = ANY($3::uuid[]) ORDER BY place
"""


async def vector_arm(
    held: Connection,
    scope: Scope,
    vector: QueryVector,
    also: Sequence[UUID],
    depth: int = ARM_DEPTH,
) -> list[Scored]:
    """Return the documents nearest to `vector`, by cosine.

    Those of `also` are named too, however far: without their cosine they could not be weighed
    against documents that both arms found.
    """
    sql = scope.sql(_VECTOR_ARM, 5)
    arguments = (vector.text, depth, list(also), vector.model, *scope.arguments)
    return scored_rows(await held.fetch(sql, *arguments))
