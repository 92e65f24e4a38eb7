"""Give documents their vectors, in batches, whatever happens to the provider or to this process.

Started by `app` as one task; `knowledge` announces new work. The work itself lies in Postgres
(`queue_store`): what a killed worker held is free again at once and found by the next look.
"""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from choir_common.errors import BadInput, ChoirError
from choir_common.postgres.pool import Database
from choir_memory.embedding import queue_store
from choir_memory.embedding.guard import EmbedderGuard
from choir_memory.embedding.port import BATCH, Vector, render
from choir_memory.embedding.queue_store import Document, Job, Made, Postponed
from choir_memory.words.passages import passages

log = structlog.get_logger("choir.memory.queue")

MAX_RETRIES = 3
"""After the first try (spec 11.9); then the slow sweep."""
DATABASE_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the queue waits for what, in seconds."""

    tick_s: float
    poll_s: float
    retry_s: float
    sweep_s: float


@dataclass(slots=True)
class _Round:
    """What became of one batch."""

    made: list[Made] = field(default_factory=list)
    failed: dict[tuple[str, str, object], ChoirError] = field(default_factory=dict)

    def fail(self, documents: Sequence[Document], error: ChoirError) -> None:
        for one in documents:
            self.failed[(one.agent_id, one.store, one.document_id)] = error


class EmbeddingQueue:
    """The worker; `run` it as a task."""

    def __init__(self, database: Database, guard: EmbedderGuard, pace: Pace) -> None:
        self._database = database
        self._guard = guard
        self._pace = pace
        self._announced = 0
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._in_trouble = False

    def announce(self, documents: int = 1) -> None:
        """Tell that documents were queued; a full batch is taken at once, less after a tick."""
        self._announced += documents
        self._some.set()
        if self._announced >= BATCH:
            self._full.set()

    async def counts(self) -> tuple[int, int]:
        """Return how many documents wait for a vector, and how many have used up their retries."""
        return await queue_store.count(self._database, MAX_RETRIES)

    async def run(self) -> None:
        """Embed what is due, for ever."""
        while True:
            await self._wait_for_work()
            try:
                while await self._take_batch():
                    pass
            except ChoirError as error:
                log.warning("embedding queue waits for the database", error=error.message)
                await asyncio.sleep(DATABASE_PAUSE_S)
            except Exception:  # the outermost loop: the jobs are still in the database
                log.exception("embedding batch failed")
                await asyncio.sleep(DATABASE_PAUSE_S)

    async def _wait_for_work(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pace.poll_s):
                await self._some.wait()
            async with asyncio.timeout(self._pace.tick_s):
                await self._full.wait()
        self._announced = 0
        self._some.clear()
        self._full.clear()

    async def _take_batch(self) -> bool:
        """Embed one batch; tell whether there may be more that would succeed."""
        async with self._database.transaction() as held:
            jobs = await queue_store.claim(held, BATCH)
            if not jobs:
                return False
            documents = await queue_store.read_documents(held, jobs)
            result = await self._embed(documents)
            await queue_store.store_vectors(held, result.made)
            late = self._late(jobs, result)
            await queue_store.postpone(held, late)
            postponed = {one.job_id for one in late}
            await queue_store.finish(held, [j.job_id for j in jobs if j.job_id not in postponed])
        await self._note(result)
        return len(jobs) == BATCH and not self._in_trouble

    async def _embed(self, documents: Sequence[Document]) -> _Round:
        result = _Round()
        cut = [(one, passages(one.text)) for one in documents]
        batches = _batches(cut)
        while batches:
            group = batches.pop(0)
            try:
                result.made += await self._vectors(group)
            except BadInput:
                await self._embed_singly(group, result)
            except ChoirError as error:
                # the embedder is down: asking on would only make the rest wait for its time-outs
                for untried in (group, *batches):
                    result.fail([one for one, _ in untried], error)
                break
        return result

    async def _embed_singly(
        self, group: Sequence[tuple[Document, list[str]]], result: _Round
    ) -> None:
        """Find the text that was refused, so that its neighbours get their vectors."""
        for one in group:
            try:
                result.made += await self._vectors([one])
            except ChoirError as error:
                result.fail([one[0]], error)

    async def _vectors(self, group: Sequence[tuple[Document, list[str]]]) -> list[Made]:
        texts = [text for _, parts in group for text in parts]
        vectors: list[Vector] = []
        for at in range(0, len(texts), BATCH):
            vectors += await self._guard.embed_documents(texts[at : at + BATCH])
        rendered = iter([render(vector) for vector in vectors])
        return [Made(one, [next(rendered) for _ in parts]) for one, parts in group]

    def _late(self, jobs: Sequence[Job], result: _Round) -> list[Postponed]:
        late = []
        for job in jobs:
            error = result.failed.get((job.agent_id, job.store, job.document_id))
            if error is not None:
                late.append(Postponed(job.job_id, self._wait_s(job.tries, error), error.message))
        return late

    def _wait_s(self, tries: int, error: ChoirError) -> float:
        if tries >= MAX_RETRIES:
            wait_s = self._pace.sweep_s
        else:
            wait_s = max(self._pace.retry_s * 2.0**tries, error.retry_after_s or 0.0)
        # jitter keeps replicas from coming back in step
        return wait_s * random.uniform(1.0, 1.25)  # noqa: S311 - spreads load, guards nothing

    async def _note(self, result: _Round) -> None:
        if result.failed:
            error = next(iter(result.failed.values()))
            log.warning(
                "documents stay without a vector for now",
                documents=len(result.failed),
                error=error.message,
            )
        elif self._in_trouble and result.made:
            await queue_store.release(self._database, MAX_RETRIES)
        # a refused text alone does not mean that the next batch would fail
        self._in_trouble = any(not isinstance(e, BadInput) for e in result.failed.values())


def _batches(
    cut: Sequence[tuple[Document, list[str]]],
) -> list[list[tuple[Document, list[str]]]]:
    """Group documents into calls of at most `BATCH` passages; a longer document stands alone."""
    made: list[list[tuple[Document, list[str]]]] = []
    room = 0
    for document, parts in cut:
        if not made or len(parts) > room:
            made.append([])
            room = BATCH
        made[-1].append((document, parts))
        room -= len(parts)
    return made
