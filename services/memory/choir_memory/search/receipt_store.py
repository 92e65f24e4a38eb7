"""Receipts of searches in Postgres.

They contain ids and figures, no text and not the query. No agent's role can access the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Database
from choir_common.wire.model import JsonObject

# Asynchronous commit: visible at once, not worth a disk flush, and lost only in a crash of Postgres right
# after.
_KEEP = """
INSERT INTO choir_memory.receipts (id, agent_id, asked_by, receipt)
SELECT made.id, agent_id, asked_by, receipt::jsonb
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) AS made (id, agent_id, asked_by, receipt),
     (SELECT set_config('synchronous_commit', 'off', true)) AS lazily
ON CONFLICT (id) DO NOTHING
"""
_READ = """
SELECT at, asked_by, receipt FROM choir_memory.receipts WHERE id = $1 AND agent_id = $2
"""


@dataclass(frozen=True, slots=True)
class NewReceipt:
    """A receipt of a search by `asked_by` in the memory of `agent_id`."""

    receipt_id: UUID
    agent_id: str
    asked_by: str
    body: str
    """JSON text."""


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A stored receipt."""

    at: datetime
    asked_by: str
    receipt: JsonObject


@dataclass(frozen=True, slots=True)
class ReceiptStore:
    """Receipts of all agents."""

    database: Database

    async def insert(self, receipts: Sequence[NewReceipt]) -> None:
        """Insert receipts; existing ones are not changed."""
        rows = (
            (receipt.receipt_id, receipt.agent_id, receipt.asked_by, receipt.body)
            for receipt in receipts
        )
        await self.database.execute(_KEEP, *(list(column) for column in zip(*rows, strict=True)))

    async def read(self, receipt_id: UUID, agent_id: str) -> StoredReceipt | None:
        """Return the receipt if it belongs to this agent's memory."""
        row = await self.database.fetchrow(_READ, receipt_id, agent_id)
        if row is None:
            return None
        return StoredReceipt(row["at"], row["asked_by"], orjson.loads(row["receipt"]))
