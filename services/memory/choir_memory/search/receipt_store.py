"""Keep and read what searches did. Receipts hold ids and figures: no text, and not the question.

Called by `recall` after the answer is found, as the service itself; no agent's role reaches the table.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import orjson

from choir_common.postgres.pool import Database
from choir_common.wire.json import JsonObject

# Not worth a disk's flush: it outlives this process at once, and a crash of Postgres after a moment.
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
class MadeReceipt:
    """A receipt about a search of `asked_by` in the memory of `agent_id`."""

    receipt_id: UUID
    agent_id: str
    asked_by: str
    body: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class KeptReceipt:
    """A receipt as it was kept."""

    at: datetime
    asked_by: str
    receipt: JsonObject


@dataclass(frozen=True, slots=True)
class ReceiptStore:
    """The receipts of all agents."""

    database: Database

    async def keep(self, made: Sequence[MadeReceipt]) -> None:
        """Keep receipts; one that is there is left as it is."""
        rows = ((one.receipt_id, one.agent_id, one.asked_by, one.body) for one in made)
        await self.database.execute(_KEEP, *(list(column) for column in zip(*rows, strict=True)))

    async def read(self, receipt_id: UUID, agent_id: str) -> KeptReceipt | None:
        """Return the receipt, if it is about this agent's memory."""
        row = await self.database.fetchrow(_READ, receipt_id, agent_id)
        if row is None:
            return None
        return KeptReceipt(row["at"], row["asked_by"], orjson.loads(row["receipt"]))
