"""The names of the collections in an agent's knowledge, on a connection under the agent's role."""

from choir_common.postgres.pool import Connection
from choir_memory.schema.store import qualified

# an index scan for each name: a collection may have a million rows
_NAMES = """
WITH RECURSIVE names AS (
    (SELECT collection FROM {schema}.knowledge_documents WHERE collection IS NOT NULL
     ORDER BY collection LIMIT 1)
    UNION ALL
    SELECT (SELECT d.collection FROM {schema}.knowledge_documents d
            WHERE d.collection > n.collection ORDER BY d.collection LIMIT 1)
    FROM names n WHERE n.collection IS NOT NULL)
SELECT collection FROM names WHERE collection IS NOT NULL LIMIT 1000
"""


async def list_collection_names(connection: Connection, agent_id: str) -> list[str]:
    """Return the names of the agent's collections that have documents."""
    rows = await connection.fetch(qualified(_NAMES, agent_id))
    return [row["collection"] for row in rows]
