"""Find expired documents, and delete rows that are past retention, under the agent's role."""

from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_memory.schema.store import qualified

BATCH = 1_000
"""Rows per transaction, so that no other writer waits long."""
EXPIRED_BATCH = 200
"""Expired documents per store and transaction; receipts are searched for each of them."""

# locked, so that `expires_at` cannot be extended before the document is erased
_EXPIRED = """
SELECT id FROM {schema}.{table} WHERE expires_at <= $1 ORDER BY expires_at LIMIT $2 FOR UPDATE
"""
# a unit that started before the cutoff and ended after it is deleted with its day
_OLD_TURNS = """
SELECT id FROM {schema}.memory_documents
WHERE tier IN ('mid_term', 'long_term_detail') AND happened_at < $1 ORDER BY happened_at LIMIT $2
"""
_OLD_SUMMARIES = """
SELECT id FROM {schema}.memory_documents
WHERE grain = $3 AND ended_at <= $1 ORDER BY ended_at LIMIT $2
"""
_FORGET_VECTORS = """
UPDATE {schema}.memory_documents SET keep_vectors = false WHERE id IN (
    SELECT id FROM {schema}.memory_documents
    WHERE tier IN ('mid_term', 'long_term_detail') AND keep_vectors AND happened_at < $1
    ORDER BY happened_at LIMIT $2)
RETURNING id
"""
_DROP_VECTORS = "DELETE FROM {schema}.memory_embeddings WHERE document_id = ANY($1::uuid[])"
# facts remain when the turns they were extracted from are deleted
_UNQUOTE = """
UPDATE {schema}.knowledge_documents SET evidence = NULL
WHERE evidence IS NOT NULL AND id IN (
    SELECT from_id FROM {schema}.links WHERE kind = 'evidence' AND to_id = ANY($1::uuid[]))
"""
_UNLINK = "DELETE FROM {schema}.links WHERE from_id = ANY($1::uuid[]) OR to_id = ANY($1::uuid[])"
_DELETE = "DELETE FROM {schema}.memory_documents WHERE id = ANY($1::uuid[])"


class RetentionStore:
    """Statements on one agent's documents."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def lock_expired(self, now: datetime) -> list[UUID]:
        """Return and lock up to a batch of expired documents of each store."""
        ids: list[UUID] = []
        for table in ("knowledge_documents", "memory_documents"):
            sql = self._sql(_EXPIRED.replace("{table}", table))
            ids += (row["id"] for row in await self._connection.fetch(sql, now, EXPIRED_BATCH))
        return ids

    async def delete_batch(self, grain: str, before: datetime) -> list[UUID]:
        """Delete up to a batch of older rows, but not what was derived from them; return their ids."""
        if grain == "turn":
            rows = await self._connection.fetch(self._sql(_OLD_TURNS), before, BATCH)
        else:
            rows = await self._connection.fetch(self._sql(_OLD_SUMMARIES), before, BATCH, grain)
        ids = [row["id"] for row in rows]
        for statement in (_UNQUOTE, _UNLINK, _DELETE):
            await self._connection.execute(self._sql(statement), ids)
        return ids

    async def drop_vectors(self, before: datetime) -> list[UUID]:
        """Permanently drop the vectors of up to a batch of older turns; return the turns' ids."""
        rows = await self._connection.fetch(self._sql(_FORGET_VECTORS), before, BATCH)
        ids = [row["id"] for row in rows]
        await self._connection.execute(self._sql(_DROP_VECTORS), ids)
        return ids

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
