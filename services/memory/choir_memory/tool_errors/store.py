"""Stored failures of tools, on a connection under the agent's role."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_recall import FailureOutcome
from choir_common.wire.memory_search import MemoryReader
from choir_memory.documents.model import readable_clause
from choir_memory.schema.store import qualified

MAX_COMPARED = 300
"""Number of the newest failures of a tool that are compared."""

_OF_TOOL = """
SELECT id, happened_at, evidence, metadata ->> 'tried' AS tried, predicate, object, seen_count,
       trust
FROM {schema}.knowledge_documents d
WHERE subject = $1 AND kind = 'error' AND status = 'active' AND evidence IS NOT NULL
  AND (d.expires_at IS NULL OR d.expires_at > $2){readable}
ORDER BY happened_at DESC, id LIMIT $3
"""
_KEEP = """
UPDATE {schema}.knowledge_documents SET expires_at = $2
WHERE id = ANY($1::uuid[]) AND expires_at < $2
"""


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A stored failure."""

    document_id: UUID
    at: datetime
    message: str
    tried: str
    outcome: FailureOutcome
    resolution: str
    """The calls that helped, one per line."""
    seen: int
    trust: int


class ToolErrorStore:
    """Statements on one agent's stored failures."""

    def __init__(self, connection: Connection, agent_id: str) -> None:
        self._connection = connection
        self._agent_id = agent_id

    async def list_by_tool(
        self, tool: str, now: datetime, reader: MemoryReader | None
    ) -> list[StoredFailure]:
        """Return the failures of a tool that a reader may find and that have not expired, newest first."""
        readable, more = readable_clause(reader, 4)
        sql = self._sql(_OF_TOOL.replace("{readable}", readable))
        rows = await self._connection.fetch(sql, tool, now, MAX_COMPARED, *more)
        return [StoredFailure(*row) for row in rows]

    async def extend_expiry(self, document_ids: Sequence[UUID], until: datetime) -> None:
        """Extend the expiry of failures that were used."""
        await self._connection.execute(self._sql(_KEEP), list(document_ids), until)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
