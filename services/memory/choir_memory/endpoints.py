"""The door to the bus: ensure, query, upsert, status (`choir_common.clients.memory`).

Built by `app`; next are `schema.spaces`, `search.recall` and `knowledge.upsert`. Writes carry a call_id
and reads change nothing, so both are tried again while the database comes back.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import stamina

from choir_common.bus import subjects
from choir_common.bus.client import Endpoint
from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.memories import (
    EnsureSpace,
    MemoryHits,
    MemoryQuery,
    MemoryStatus,
    MemoryUpsert,
    MemoryWritten,
)
from choir_common.wire.messages import Nothing
from choir_memory.embedding.guard import EmbedderGuard
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.knowledge.upsert import Knowledge
from choir_memory.schema.spaces import Spaces
from choir_memory.search.recall import Recall

PATIENCE_S = 6.0
"""Seconds an answer waits for a database that is away; callers wait ten."""

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Answers control's calls."""

    spaces: Spaces
    knowledge: Knowledge
    recall: Recall
    queue: EmbeddingQueue
    guard: EmbedderGuard

    def table(self) -> tuple[Endpoint, ...]:
        """Return every subject this service answers."""
        return (
            Endpoint(subjects.ensure_memory(), EnsureSpace, self._ensure),
            Endpoint(subjects.query_memory(), MemoryQuery, self._query),
            Endpoint(subjects.upsert_memory(), MemoryUpsert, self._upsert),
            Endpoint(subjects.memory_status(), Nothing, self._status),
        )

    async def _ensure(self, space: EnsureSpace) -> Nothing:
        await _patiently(lambda: self.spaces.ensure(space.agent_id))
        return Nothing()

    async def _query(self, query: MemoryQuery) -> MemoryHits:
        return await _patiently(lambda: self.recall.query(query))

    async def _upsert(self, write: MemoryUpsert) -> MemoryWritten:
        return await _patiently(lambda: self.knowledge.upsert(write))

    async def _status(self, _: Nothing) -> MemoryStatus:
        queued, failed = await self.queue.counts()
        return MemoryStatus(
            embedder=self.guard.name,
            dimensions=self.guard.dimensions,
            queued=queued,
            failed=failed,
            degraded=self.guard.trouble,
        )


async def _patiently(call: Callable[[], Awaitable[Answer]]) -> Answer:
    async for attempt in stamina.retry_context(
        on=Unavailable, attempts=None, timeout=PATIENCE_S, wait_initial=0.05, wait_max=0.5
    ):
        with attempt:
            return await call()
    raise ChoirError  # the loop above returns or raises
