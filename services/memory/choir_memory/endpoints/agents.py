"""Endpoints for ensure, query, upsert, receipt and status (`choir_common.clients.memory`).

Built by `app`; next are `schema.spaces`, `search.recall` and `knowledge.upsert`.
"""

from dataclasses import dataclass
from uuid import UUID

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.wire.memories import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
    NewModel,
    ReadReceipt,
    Receipt,
)
from choir_common.wire.messages import Nothing
from choir_memory.audit.store import AuditStore, Entry, as_actor
from choir_memory.embedding.embedders import Embedders
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.endpoints.patience import patiently
from choir_memory.knowledge.upsert import Knowledge
from choir_memory.schema.spaces import Spaces
from choir_memory.search.recall import Recall


@dataclass(frozen=True, slots=True)
class AgentDoor:
    """Endpoints for the requests that control sends on behalf of agents."""

    spaces: Spaces
    knowledge: Knowledge
    recall: Recall
    queue: EmbeddingQueue
    embedders: Embedders
    audit: AuditStore

    def table(self) -> tuple[Endpoint, ...]:
        """Return the endpoints."""
        return (
            Endpoint(subjects.ensure_memory(), EnsureSpace, self._ensure),
            Endpoint(subjects.query_memory(), MemoryQuery, self._query),
            Endpoint(subjects.upsert_memory(), MemoryUpsert, self._upsert),
            Endpoint(subjects.memory_receipt(), ReadReceipt, self._receipt),
            Endpoint(subjects.memory_status(), Nothing, self._status),
        )

    async def _ensure(self, space: EnsureSpace) -> Nothing:
        await patiently(lambda: self.spaces.ensure(space.agent_id))
        return Nothing()

    async def _query(self, query: MemoryQuery) -> MemoryHits:
        hits = await patiently(lambda: self.recall.query(query))
        target = query.target_agent or query.agent_id
        if target != query.agent_id:
            # audited before the answer is sent: no read of another agent's memory goes unrecorded
            beside = (one for hit in hits.hits for one in (*hit.before, *hit.after))
            shown = [hit.document_id for hit in hits.hits] + [one.document_id for one in beside]
            read = {UUID(one) for one in shown}
            entry = Entry(target, as_actor(query.agent_id), "read", read, {"mode": query.mode})
            await patiently(lambda: self.audit.note(entry))
        return hits

    async def _upsert(self, write: MemoryUpsert) -> MemoryWritten:
        return await patiently(lambda: self.knowledge.upsert(write))

    async def _receipt(self, asked: ReadReceipt) -> Receipt:
        return await patiently(lambda: self.recall.receipt(asked))

    async def _status(self, _: Nothing) -> MemoryStatus:
        queued, failed = await self.queue.counts()
        return MemoryStatus(
            embedder=self.embedders.name,
            dimensions=self.embedders.dimensions,
            queued=queued,
            failed=failed,
            degraded=self.embedders.trouble,
            building=await self._building(),
        )

    async def _building(self) -> NewModel | None:
        found = await self.embedders.progress()
        if found is None:
            return None
        return NewModel(
            embedder=found.name,
            dimensions=found.dimensions,
            done=found.done,
            documents=found.documents,
        )
