"""Erase documents whose `expires_at` has passed. A maintenance task run by `grains.rounds`.

Search hides a document from the moment it expires; this task deletes it and everything that refers to it.
"""

from dataclasses import dataclass

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_memory.documents.erase_store import erase, erase_mentions
from choir_memory.layers.expiry_store import ExpiryStore
from choir_memory.schema.store import as_agent, resume_service_role


@dataclass(frozen=True, slots=True)
class Expiry:
    """The maintenance task that erases expired documents of both stores."""

    database: Database
    clock: Clock

    async def run_agent(self, agent_id: str) -> int:
        """Erase an agent's expired documents; return how many."""
        gone = 0
        while True:
            async with as_agent(self.database, agent_id) as held:
                ids = await ExpiryStore(held, agent_id).expired(self.clock.now())
                if not ids:
                    return gone
                erased = await erase(held, agent_id, ids)
                await resume_service_role(held)
                await erase_mentions(held, agent_id, erased.ids)
            gone += len(ids)
