"""Maintenance tasks that delete: rows and vectors past an agent's retention, and expired documents.

Search hides a document from the moment it expires; the task erases it and everything that refers to it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import structlog

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.wire.memory_config import RetentionConfig
from choir_memory.documents.erase_store import erase_documents, erase_references
from choir_memory.embedding.queue_store import dequeue
from choir_memory.maintenance.retention_store import RetentionStore
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.store import agent_transaction, resume_service_role
from choir_memory.summaries.retention_cutoffs import (
    RetentionCutoff,
    retention_cutoffs,
    vector_cutoff,
)

log = structlog.get_logger("choir.memory.retention")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionTask:
    """The maintenance task that applies retention limits; agents without an entry keep everything."""

    database: Database
    leases: LeaseStore
    clock: Clock
    retention: Mapping[str, RetentionConfig]
    """Retention settings by agent."""

    async def run_agent(self, agent_id: str) -> int:
        """Delete rows and drop vectors that are too old; return how many rows were deleted."""
        limits = self.retention.get(agent_id)
        if limits is None:
            return 0
        deleted = 0
        now = self.clock.now()
        async with self.leases.hold(agent_id, "retention") as ours:
            if ours:
                for cutoff in retention_cutoffs(limits, now):
                    deleted += await self._delete(agent_id, cutoff)
                if (before := vector_cutoff(limits, now)) is not None:
                    await self._drop_vectors(agent_id, before)
        if deleted:
            log.info("memory past retention deleted", agent_id=agent_id, rows=deleted)
        return deleted

    async def _delete(self, agent_id: str, cutoff: RetentionCutoff) -> int:
        deleted = 0
        while True:
            async with agent_transaction(self.database, agent_id) as connection:
                ids = await RetentionStore(connection, agent_id).delete_batch(
                    cutoff.of, cutoff.before
                )
                await resume_service_role(connection)
                await dequeue(connection, agent_id, ids)
            deleted += len(ids)
            if not ids:
                return deleted

    async def _drop_vectors(self, agent_id: str, before: datetime) -> None:
        dropped = 0
        while True:
            async with agent_transaction(self.database, agent_id) as connection:
                ids = await RetentionStore(connection, agent_id).drop_vectors(before)
                await resume_service_role(connection)
                await dequeue(connection, agent_id, ids)
            dropped += len(ids)
            if not ids:
                break
        if dropped:
            log.info("vectors past retention dropped", agent_id=agent_id, rows=dropped)


@dataclass(frozen=True, slots=True)
class ExpiryTask:
    """The maintenance task that erases expired documents of both stores."""

    database: Database
    clock: Clock

    async def run_agent(self, agent_id: str) -> int:
        """Erase an agent's expired documents; return how many."""
        deleted = 0
        while True:
            async with agent_transaction(self.database, agent_id) as connection:
                ids = await RetentionStore(connection, agent_id).lock_expired(self.clock.now())
                if not ids:
                    return deleted
                erased = await erase_documents(connection, agent_id, ids)
                await resume_service_role(connection)
                await erase_references(connection, agent_id, erased.ids)
            deleted += len(ids)
