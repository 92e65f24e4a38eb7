"""Delete what was to be kept for a time, once that is over. An errand of `grains.rounds`.

Search does not find it from the moment it expires; here it goes, with all that tells of it.
"""

from dataclasses import dataclass

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_memory.documents.erase_store import erase, erase_mentions
from choir_memory.layers.expiry_store import ExpiryStore
from choir_memory.schema.store import as_agent, resume_service_role


@dataclass(frozen=True, slots=True)
class Expiry:
    """Erases expired documents of both stores."""

    database: Database
    clock: Clock

    async def run_agent(self, agent_id: str) -> int:
        """Erase what has expired of one agent; return how many documents."""
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
