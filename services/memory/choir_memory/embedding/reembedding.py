"""Re-embed all documents after the model or its dimensions changed, while the old vectors still serve.

Walks over the documents of all agents page by page and queues those without
a vector of the new model. When none is pending, one transaction activates the new model, and the old
vectors are dropped page by page. The position is stored in Postgres in the same transaction as the queued
jobs, so the walk resumes after a crash, and each step is done by one replica.
"""

import asyncio
from dataclasses import dataclass

import structlog

from choir_common.errors import ChoirError
from choir_common.postgres.pool import Connection, Database
from choir_memory.embedding import model_store
from choir_memory.embedding.embedder import BATCH_SIZE
from choir_memory.embedding.model_store import STORES, ReembeddingWalk
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.schema.store import SpaceRegistry

log = structlog.get_logger("choir.memory.rebuild")

PAGE = 64 * BATCH_SIZE
"""Documents queued at once: more than a second of work for the new model, which has its own lane."""
REFILL_FRACTION = 4
"""The next page is queued when less than this fraction (one quarter) of a page is pending."""
DROP_BATCH = 2_000
FAILURE_PAUSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reembedding:
    """The walk over all documents; start `run` as a task."""

    database: Database
    spaces: SpaceRegistry
    embedders: EmbedderRegistry
    queue: EmbeddingQueue
    poll_s: float
    grace_s: float
    """Seconds for replicas to notice that another model serves, before the old vectors are deleted."""
    page: int = PAGE

    async def run(self) -> None:
        """Walk while a model is to be built or its vectors deleted; poll until cancelled."""
        while True:
            try:
                while await self.step():
                    pass
                await self.embedders.refresh()
                await asyncio.sleep(self.poll_s)
            except ChoirError as error:
                log.warning("re-embedding retries after an error", error=error.message)
                await asyncio.sleep(FAILURE_PAUSE_S)
            except Exception:  # the outermost loop: the position is still in the database
                log.exception("re-embedding step failed")
                await asyncio.sleep(FAILURE_PAUSE_S)

    async def step(self) -> bool:
        """Do one step; return whether the next can follow at once."""
        async with self.database.transaction() as connection:
            walk = await model_store.lock_next_walk(connection, self.grace_s)
            if walk is None:
                return False
            if walk.documents is not None or walk.state == "retired":
                return await self._go_on(connection, walk)
        # outside of the transaction: it may take long, and only the progress report needs it
        await self._count(walk)
        return True

    async def _go_on(self, connection: Connection, walk: ReembeddingWalk) -> bool:
        if walk.state == "building" and not await self._wants_more(connection, walk):
            return False
        if walk.finished:
            await model_store.activate_model(connection, walk)
            log.info("new embedding model activated", model=walk.model)
            return True
        if walk.store is None:
            return await self._next_space(connection, walk)
        page = self.page if walk.state == "building" else DROP_BATCH
        if not await model_store.walk_page(connection, walk, page):
            await self._leave_store(connection, walk)
        if walk.state == "building":
            self.queue.notify(self.page)
        return True

    async def _wants_more(self, connection: Connection, walk: ReembeddingWalk) -> bool:
        """Return whether few enough jobs are pending for another page, or none for the switch."""
        low = max(self.page // REFILL_FRACTION, 1)
        waiting = await model_store.count_pending(connection, walk.model, low)
        return waiting == 0 if walk.finished else waiting < low

    async def _next_space(self, connection: Connection, walk: ReembeddingWalk) -> bool:
        agent_id = await model_store.next_agent(connection, walk.agent_id)
        if agent_id is None:
            await model_store.finish_walk(connection, walk)
        else:
            # the space may have been created by an older version and not used since
            await self.spaces.ensure(agent_id)
            await model_store.move_walk(connection, walk, agent_id, STORES[0])
        return True

    async def _leave_store(self, connection: Connection, walk: ReembeddingWalk) -> None:
        assert walk.store is not None
        later = STORES[STORES.index(walk.store) + 1 :]
        await model_store.move_walk(connection, walk, walk.agent_id, later[0] if later else None)

    async def _count(self, walk: ReembeddingWalk) -> None:
        """Count the documents to embed, for the progress report."""
        documents, agent_id = 0, ""
        while True:
            async with self.database.connection() as connection:
                following = await model_store.next_agent(connection, agent_id)
                if following is None:
                    break
                agent_id = following
                await self.spaces.ensure(agent_id)
                documents += await model_store.count_documents(connection, agent_id)
        await model_store.set_documents(self.database, walk.model, documents)
        log.info("re-embedding started", model=walk.model, documents=documents)
