"""The audit's rows in `choir_memory`, which no agent's role can reach.

Called by whoever changes or shows memory, as the service itself. An entry is written in the transaction of
what it tells of, so there is neither one without the other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Connection, Database
from choir_common.wire.json import JsonObject

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
class Entry:
    """One operation on the memory of `agent_id`; `detail` holds words of ours and numbers only."""

    agent_id: str
    actor: str
    operation: str
    document_ids: Iterable[UUID] = ()
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry as it was written down."""

    number: int
    at: datetime
    entry: Entry


def as_actor(agent_id: str) -> str:
    """Return what an agent is called in the audit."""
    return f"agent:{agent_id}"


async def note(held: Connection, entry: Entry) -> None:
    """Write an entry, if this transaction commits."""
    detail = orjson.dumps(entry.detail).decode()
    ids = list(entry.document_ids)
    await held.execute(_NOTE, entry.agent_id, entry.actor, entry.operation, ids, detail)


class AuditStore:
    """The audit, for those who have no transaction of their own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, entry: Entry) -> None:
        """Write an entry."""
        async with self._database.connection() as held:
            await note(held, entry)

    async def page(self, agent_id: str, before: int | None, limit: int) -> list[Kept]:
        """Return entries on an agent's memory, newest first."""
        rows = await self._database.fetch(_PAGE, agent_id, before, limit)
        return [
            Kept(
                row["id"],
                row["at"],
                Entry(
                    agent_id,
                    row["actor"],
                    row["operation"],
                    row["document_ids"],
                    orjson.loads(row["detail"]),
                ),
            )
            for row in rows
        ]
