"""Find expired documents. Called by `expiry`, under the agent's role."""

from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.schema.store import qualified

BATCH = 200
"""Documents per store and transaction; receipts are searched for each of them."""

# locked, so that `expires_at` cannot be extended before the document is erased
_EXPIRED = """
SELECT id FROM {schema}.{table} WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE
"""


class ExpiryStore:
    """Statements on one agent's documents."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def lock_expired(self, now: datetime) -> list[UUID]:
        """Return and lock up to a batch of expired documents of each store."""
        found: list[UUID] = []
        for table in ("knowledge_documents", "memory_documents"):
            sql = qualified(_EXPIRED.replace("{table}", table), self._agent_id)
            found += (row["id"] for row in await self._connection.fetch(sql, now, BATCH))
        return found
