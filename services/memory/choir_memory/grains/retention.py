"""Delete rows and vectors that are past an agent's retention.

A maintenance task run by `rounds`, after `consolidate`, so that rows are summarised before they are
deleted. Next are `cutoffs` and `retention_store`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.wire.config import RetentionConfig
from choir_memory.embedding.queue_store import withdraw
from choir_memory.grains.cutoffs import Cutoff, cutoffs, vectors_cutoff
from choir_memory.grains.retention_store import RetentionStore
from choir_memory.schema.lease_store import Leases
from choir_memory.schema.store import as_agent, resume_service_role

log = structlog.get_logger("choir.memory.retention")


@dataclass(frozen=True, slots=True)
class Retention:
    """The maintenance task that applies retention limits; agents without an entry keep everything."""

    database: Database
    leases: Leases
    clock: Clock
    kept: Mapping[str, RetentionConfig]

    async def run_agent(self, agent_id: str) -> int:
        """Delete rows and drop vectors that are too old; return how many rows were deleted."""
        kept = self.kept.get(agent_id)
        if kept is None:
            return 0
        gone = 0
        now = self.clock.now()
        async with self.leases.hold(agent_id, "retention") as ours:
            if ours:
                for cutoff in cutoffs(kept, now):
                    gone += await self._delete(agent_id, cutoff)
                if (before := vectors_cutoff(kept, now)) is not None:
                    await self._drop_vectors(agent_id, before)
        if gone:
            log.info("memory was kept long enough", agent_id=agent_id, rows=gone)
        return gone

    async def _delete(self, agent_id: str, cutoff: Cutoff) -> int:
        gone = 0
        while True:
            async with as_agent(self.database, agent_id) as held:
                ids = await RetentionStore(held, agent_id).delete(cutoff.of, cutoff.before)
                await resume_service_role(held)
                await withdraw(held, agent_id, ids)
            gone += len(ids)
            if not ids:
                return gone

    async def _drop_vectors(self, agent_id: str, before: datetime) -> None:
        dropped = 0
        while True:
            async with as_agent(self.database, agent_id) as held:
                ids = await RetentionStore(held, agent_id).drop_vectors(before)
                await resume_service_role(held)
                await withdraw(held, agent_id, ids)
            dropped += len(ids)
            if not ids:
                break
        if dropped:
            log.info("vectors were kept long enough", agent_id=agent_id, rows=dropped)
