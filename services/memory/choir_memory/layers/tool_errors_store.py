"""Remembered failures of tools. Called by `tool_errors`, on a connection under the agent's role."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_hints import TroubleOutcome
from choir_memory.schema.naming import qualified

LOOKED_AT = 300
"""Newest failures of a tool that are compared; older ones of a tool that fails so often help nobody."""

_OF_TOOL = """
SELECT id, happened_at, evidence, metadata ->> 'tried' AS tried, predicate, object, seen_count
FROM {schema}.knowledge_documents
WHERE subject = $1 AND kind = 'error' AND status = 'active' AND evidence IS NOT NULL
  AND (expires_at IS NULL OR expires_at > $2)
ORDER BY happened_at DESC, id LIMIT $3
"""
_KEEP = """
UPDATE {schema}.knowledge_documents SET expires_at = $2
WHERE id = ANY($1::uuid[]) AND expires_at < $2
"""


@dataclass(frozen=True, slots=True)
class Remembered:
    """A failure as it was kept."""

    document_id: UUID
    at: datetime
    said: str
    tried: str
    outcome: TroubleOutcome
    resolution: str
    """What helped, a step a line."""
    seen: int


class ToolErrorStore:
    """The statements over one agent's remembered failures."""

    def __init__(self, held: Connection, agent_id: str) -> None:
        self._held = held
        self._agent_id = agent_id

    async def of_tool(self, tool: str, now: datetime) -> list[Remembered]:
        """Return the failures of a tool that have not expired, the newest first."""
        rows = await self._held.fetch(self._sql(_OF_TOOL), tool, now, LOOKED_AT)
        return [Remembered(*row) for row in rows]

    async def keep_until(self, document_ids: Sequence[UUID], until: datetime) -> None:
        """Let these last longer: they were of use."""
        await self._held.execute(self._sql(_KEEP), list(document_ids), until)

    def _sql(self, statement: str) -> str:
        return qualified(statement, self._agent_id)
