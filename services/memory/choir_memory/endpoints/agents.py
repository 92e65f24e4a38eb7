"""Endpoints for ensure, query, upsert, receipt and status (`choir_common.clients.memory`).

Built by `app`; next are `schema.spaces`, `search.recall` and `knowledge.upsert`.

Endpoint for known failures of a tool (`choir_common.clients.memory`).

Built by `app`; next is `layers.tool_errors`.

Endpoint for reminders to show with a user's message (`choir_common.clients.memory`).

Built by `app`; next is `layers.reminders`.
"""

from dataclasses import dataclass
from uuid import UUID

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memory_recall import ReadHints, ReadReminders, Reminders, ToolHints
from choir_common.wire.memory_search import (
    EmbeddingRebuild,
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    ReadSearchReceipt,
    SearchReceipt,
)
from choir_common.wire.messages import Empty
from choir_memory.audit.store import AuditRecord, AuditStore, actor_name
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.endpoints.retry import retry_unavailable
from choir_memory.knowledge.upsert import KnowledgeService
from choir_memory.reminders.service import ReminderService
from choir_memory.schema.store import SpaceRegistry
from choir_memory.search.service import SearchService
from choir_memory.tool_errors.service import ToolErrorService


@dataclass(frozen=True, slots=True)
class AgentEndpoints:
    """Endpoints for the requests that control sends on behalf of agents."""

    spaces: SpaceRegistry
    knowledge: KnowledgeService
    recall: SearchService
    queue: EmbeddingQueue
    embedders: EmbedderRegistry
    audit: AuditStore

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.ensure_memory(), EnsureSpace, self._ensure),
            Endpoint(subjects.query_memory(), MemoryQuery, self._query),
            Endpoint(subjects.upsert_memory(), MemoryUpsert, self._upsert),
            Endpoint(subjects.memory_receipt(), ReadSearchReceipt, self._receipt),
            Endpoint(subjects.memory_status(), Empty, self._status),
        )

    async def _ensure(self, space: EnsureSpace) -> Empty:
        await retry_unavailable(lambda: self.spaces.ensure(space.agent_id))
        return Empty()

    async def _query(self, query: MemoryQuery) -> MemoryHits:
        hits = await retry_unavailable(lambda: self.recall.query(query))
        target = query.target_agent or query.agent_id
        if target != query.agent_id:
            # audited before the answer is sent: no read of another agent's memory goes unrecorded
            beside = (one for hit in hits.hits for one in (*hit.before, *hit.after))
            shown = [hit.document_id for hit in hits.hits] + [one.document_id for one in beside]
            read = {UUID(one) for one in shown}
            entry = AuditRecord(
                target, actor_name(query.agent_id), "read", read, {"mode": query.mode}
            )
            await retry_unavailable(lambda: self.audit.write_record(entry))
        return hits

    async def _upsert(self, write: MemoryUpsert) -> MemoryWritten:
        return await retry_unavailable(lambda: self.knowledge.upsert(write))

    async def _receipt(self, asked: ReadSearchReceipt) -> SearchReceipt:
        return await retry_unavailable(lambda: self.recall.receipt(asked))

    async def _status(self, _: Empty) -> MemoryStatus:
        queued, failed = await self.queue.counts()
        return MemoryStatus(
            embedder=self.embedders.name,
            dimensions=self.embedders.dimensions,
            queued=queued,
            failed=failed,
            degraded=self.embedders.trouble,
            building=await self._building(),
        )

    async def _building(self) -> EmbeddingRebuild | None:
        found = await self.embedders.progress()
        if found is None:
            return None
        return EmbeddingRebuild(
            embedder=found.name,
            dimensions=found.dimensions,
            done=found.done,
            documents=found.documents,
        )


@dataclass(frozen=True, slots=True)
class HintEndpoints:
    """Endpoint that control calls for an agent after a tool call failed."""

    errors: ToolErrorService

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoint."""
        return (Endpoint(subjects.memory_hints(), ReadHints, self._hints),)

    async def _hints(self, wanted: ReadHints) -> ToolHints:
        # not retried: the failed call waits for this answer
        return await self.errors.hints(wanted)


@dataclass(frozen=True, slots=True)
class ReminderEndpoints:
    """Endpoint that control calls for an agent that has received a user message."""

    reminding: ReminderService

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoint."""
        return (Endpoint(subjects.memory_reminders(), ReadReminders, self._remind),)

    async def _remind(self, wanted: ReadReminders) -> Reminders:
        # not retried: a user's message waits for this answer
        return await self.reminding.remind(wanted)
