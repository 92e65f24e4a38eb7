"""Rows of `choir_memory.audit`, which no agent's role can access.

`write_record` writes an entry in the transaction of the audited change, under the service's role, so that
neither exists without the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection, Database
from choir_common.wire.model import JsonObject

OPERATOR = "operator"

_NOTE = """
INSERT INTO choir_memory.audit (agent_id, actor, operation, document_ids, detail)
VALUES ($1, $2, $3, $4::uuid[], $5::jsonb)
"""
_PAGE = """
SELECT id, at, actor, operation, document_ids, detail FROM choir_memory.audit
WHERE agent_id = $1 AND ($2::bigint IS NULL OR id < $2) ORDER BY id DESC LIMIT $3
"""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One operation on the memory of `agent_id`; `detail` contains only constants and numbers, no
    user content."""

    agent_id: str
    actor: str
    operation: str
    document_ids: Iterable[UUID] = ()
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredAuditRecord:
    """A stored entry with its number and time."""

    number: int
    at: datetime
    entry: AuditRecord


def actor_name(agent_id: str) -> str:
    """Return the actor name of an agent in the audit log."""
    return f"agent:{agent_id}"


async def write_record(connection: Connection, entry: AuditRecord) -> None:
    """Write an entry in the current transaction."""
    detail = orjson.dumps(entry.detail).decode()
    ids = list(entry.document_ids)
    await connection.execute(_NOTE, entry.agent_id, entry.actor, entry.operation, ids, detail)


class AuditStore:
    """Audit entries written or read outside of a caller's transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write_record(self, entry: AuditRecord) -> None:
        """Write an entry."""
        async with self._database.connection() as connection:
            await write_record(connection, entry)

    async def read_page(
        self, agent_id: str, before: int | None, limit: int
    ) -> list[StoredAuditRecord]:
        """Return entries on an agent's memory, newest first."""
        rows = await self._database.fetch(_PAGE, agent_id, before, limit)
        return [
            StoredAuditRecord(
                row["id"],
                row["at"],
                AuditRecord(
                    agent_id,
                    row["actor"],
                    row["operation"],
                    row["document_ids"],
                    orjson.loads(row["detail"]),
                ),
            )
            for row in rows
        ]
