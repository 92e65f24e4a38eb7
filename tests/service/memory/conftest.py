"""Fixtures of the memory service's tests."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from choir_common.clock import Clock, SystemClock
from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import MemoryHits, MemoryQuery, MemoryUpsert, MemoryWritten
from choir_memory.embedding.circuit_breaker import EmbedderCircuitBreaker
from choir_memory.embedding.embedder import Embedder
from choir_memory.embedding.factory import ConfiguredModel
from choir_memory.embedding.model_store import StoredModel
from choir_memory.embedding.queue import EmbeddingQueue, QueueIntervals
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.knowledge.upsert import KnowledgeService
from choir_memory.schema.store import SpaceRegistry, SpaceStore
from choir_memory.search.receipt_store import ReceiptStore
from choir_memory.search.receipt_writer import ReceiptWriter
from choir_memory.search.service import SearchService
from choir_memory.search.space_cache import SpaceCache
from tests.service.memory.provider import ScriptedProvider
from tests.service.memory.servers import bus, database, dsn, make_memory, nats, postgres

__all__ = ["bus", "database", "dsn", "make_memory", "nats", "postgres"]

QUICK = QueueIntervals(tick_s=0.02, poll_s=0.05, retry_s=0.05, sweep_s=0.3)
CACHE_BYTES = 4 * 1024 * 1024


@dataclass
class Room:
    """The service's parts in this process, over a real database."""

    database: Database
    spaces: SpaceRegistry
    embedders: EmbedderRegistry
    queue: EmbeddingQueue
    knowledge: KnowledgeService
    recall: SearchService
    dsn: str
    calls: int = 0

    @property
    def guard(self) -> EmbedderCircuitBreaker:
        """Return the guard of the model that serves."""
        return self.embedders.working[0][1]

    async def put(self, text: str | None, **more: object) -> MemoryWritten:
        """Insert knowledge of agent `main`, or what `more` says instead."""
        self.calls += 1
        fields = {"agent_id": "main", "call_id": f"call-{self.calls}", "operation": "insert"}
        return await self.knowledge.upsert(MemoryUpsert(**(fields | {"text": text} | more)))

    async def ask(self, query: str, **more: object) -> MemoryHits:
        """Search the knowledge of agent `main`, or what `more` says instead."""
        fields = {"agent_id": "main", "store": "knowledge", "query": query, "deadline_ms": 9_000}
        return await self.recall.query(MemoryQuery(**(fields | more)))


async def make_room(
    database: Database, embedder: Embedder, dsn: str = "", query_deadline_s: float = 30.0
) -> Room:
    """Build the parts around `embedder` over an empty database."""
    spaces = SpaceRegistry(SpaceStore(database))
    await spaces.open()
    embedders = EmbedderRegistry(
        database=database,
        factory=FakeEmbedderFactory(embedder),
        clock=SystemClock(),
        query_deadline_s=query_deadline_s,
    )
    await embedders.open()
    queue = EmbeddingQueue(database=database, spaces=spaces, embedders=embedders, intervals=QUICK)
    return Room(
        database,
        spaces,
        embedders,
        queue,
        KnowledgeService(database, spaces, queue),
        make_search(database, spaces, embedders),
        dsn,
    )


def make_search(
    database: Database,
    spaces: SpaceRegistry,
    embedders: EmbedderRegistry,
    clock: Clock | None = None,
    *,
    cache_bytes: int = CACHE_BYTES,
) -> SearchService:
    """Build the search over these parts."""
    return SearchService(
        database=database,
        spaces=spaces,
        embedders=embedders,
        clock=clock or SystemClock(),
        receipts=ReceiptWriter(ReceiptStore(database)),
        space_cache=SpaceCache(cache_bytes),
    )


class FakeEmbedderFactory:
    """Factory that knows these embedders; the first is the configured one."""

    def __init__(self, *embedders: Embedder) -> None:
        first = embedders[0]
        self.configured = ConfiguredModel(first.name, first.dimensions, "test")
        self._embedders = {embedder.name: embedder for embedder in embedders}

    def create(self, model: StoredModel) -> Embedder | None:
        return self._embedders.get(model.name)


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as server:
        yield server


@pytest.fixture
async def room(database: Database, dsn: str, provider: ScriptedProvider) -> AsyncIterator[Room]:
    """Return the service's parts, with vectors from the scripted provider."""
    embedder = provider.embedder()
    made = await make_room(database, embedder, dsn)
    yield made
    await made.recall.receipts.close()
    await embedder.close()
