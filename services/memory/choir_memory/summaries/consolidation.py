"""Write the summaries of an agent's due periods, days first, then the coarser grains.

A maintenance task. A pass costs one aggregation over an
agent's turns. Finished periods are skipped, so any number of replicas and restarts produce the same rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from choir_common.clock import Clock
from choir_common.postgres.pool import Database
from choir_common.wire.config import MemoryPrompts
from choir_common.wire.memory_config import RetentionConfig
from choir_memory.documents.model import Grain
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.queue_store import enqueue
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.schema.reader_store import read_readers
from choir_memory.schema.store import SpaceRegistry, agent_transaction, resume_service_role
from choir_memory.summaries.periods import GRAINS
from choir_memory.summaries.retention_cutoffs import is_retained, retention_cutoffs
from choir_memory.summaries.store import DuePeriod, SummaryStore
from choir_memory.summaries.summarizer import Summarizer


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationTask:
    """The maintenance task that writes time summaries; `queue` is told how many documents were queued."""

    database: Database
    spaces: SpaceRegistry
    leases: LeaseStore
    summarizer: Summarizer
    clock: Clock
    queue: EmbeddingQueue
    retention: Mapping[str, RetentionConfig]
    """Retention settings by agent."""
    prompts: Mapping[str, MemoryPrompts] = field(default_factory=dict)
    """Prompts of the agents that have their own."""

    async def run_agent(self, agent_id: str) -> int:
        """Summarise an agent's due periods; return how many were written."""
        await self.spaces.ensure(agent_id)
        if not await self._due(agent_id, GRAINS):
            return 0  # the common case: nothing is written, not even a lease
        summary_count = 0
        for grain in GRAINS:
            async with self.leases.hold(agent_id, f"grain:{grain}") as ours:
                if not ours:
                    break  # another replica is working on it, and the coarser grains depend on its result
                summary_count += await self._run_grain(agent_id, grain)
        return summary_count

    async def _due(self, agent_id: str, grains: Sequence[Grain]) -> list[DuePeriod]:
        readers = await read_readers(self.database, agent_id) or (None,)
        async with agent_transaction(self.database, agent_id) as connection:
            now, has_model = self.clock.now(), self.summarizer.has_model
            due = [
                period
                for reader in readers
                for grain in grains
                for period in await SummaryStore(connection, agent_id, reader).due(
                    grain, now, wants_model=has_model
                )
            ]
            store = SummaryStore(connection, agent_id)
            existing_periods = await store.list_summarized() if due else set()
        limits = self.retention.get(agent_id, RetentionConfig())
        cutoffs = {cutoff.of: cutoff.before for cutoff in retention_cutoffs(limits, now)}
        # periods that retention would delete at once are not written
        return [
            period
            for period in due
            if is_retained(period.grain, period.period, cutoffs, existing_periods)
        ]

    async def _run_grain(self, agent_id: str, grain: Grain) -> int:
        summary_count = 0
        for period in await self._due(agent_id, [grain]):
            # a model call may have taken long: the lease must not expire during the next one
            if not await self.leases.renew(agent_id, f"grain:{grain}"):
                break
            summary_count += await self._write(agent_id, period)
        return summary_count

    async def _write(self, agent_id: str, due: DuePeriod) -> bool:
        async with agent_transaction(self.database, agent_id) as connection:
            sources = await SummaryStore(connection, agent_id).read(due)
        if not sources:
            return False  # erased meanwhile
        guidance = self.prompts.get(agent_id, MemoryPrompts()).summaries
        summary = await self.summarizer.summarize(due, sources, guidance)
        if summary.by == "selection" and not due.changed:
            return False  # the model failed again
        async with agent_transaction(self.database, agent_id) as connection:
            document_id = await SummaryStore(connection, agent_id).write(due, summary)
            if document_id is None:
                return False
            await resume_service_role(connection)
            await enqueue(connection, agent_id, "session", document_id)
        self.queue.notify(1)
        return True
