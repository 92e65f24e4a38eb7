"""Worker of the embedding queue: embeds pending documents in batches and retries failures.

Code that writes documents announces new work by `notify`. The jobs are rows in Postgres: those of a
crashed worker are free again at once, and the next poll finds them. The active model and the one being
built have separate lanes, so that a slow new model does not delay the active one.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.postgres.pool import Database
from choir_memory.embedding import queue_store
from choir_memory.embedding.circuit_breaker import EmbedderCircuitBreaker
from choir_memory.embedding.embedder import (
    BATCH_SIZE,
    MAX_RETRY_AFTER_S,
    Vector,
    supports_sentences,
    to_halfvec,
)
from choir_memory.embedding.queue_store import (
    EmbeddedDocument,
    EmbeddingJob,
    PostponedJob,
    QueuedDocument,
)
from choir_memory.embedding.registry import EmbedderRegistry
from choir_memory.schema.store import SpaceRegistry
from choir_memory.text.clauses import sentences_to_embed
from choir_memory.text.splitting import FIRST_SENTENCE_PART, PASSAGE_CHARS, split_passages

log = structlog.get_logger("choir.memory.queue")

MAX_RETRIES = 3
"""Retries with backoff after the first attempt; then the document waits for the slow sweep."""
REJECTED_RETRY_S = 3_600.0
"""Seconds before a text that was rejected each time is tried again; each attempt may cost money."""
JITTER = 1.25
DATABASE_PAUSE_S = 1.0

DocumentParts = dict[int, str]
"""The texts of a document that get a vector, by the number of their part."""


@dataclass(frozen=True, slots=True)
class QueueIntervals:
    """Intervals and delays of the queue, in seconds."""

    tick_s: float
    poll_s: float
    retry_s: float
    sweep_s: float


@dataclass(slots=True)
class _BatchResult:
    """Result of one batch."""

    embedded: list[EmbeddedDocument] = field(default_factory=list)
    failed: dict[tuple[str, str, object], ChoirError] = field(default_factory=dict)
    down: ChoirError | None = None
    """The error when the embedder itself is unavailable, not one text rejected."""

    def fail(self, documents: Sequence[QueuedDocument], error: ChoirError) -> None:
        for document in documents:
            self.failed[(document.agent_id, document.store, document.document_id)] = error


@dataclass(slots=True)
class _ModelFailure:
    """Failure state of a model: consecutive failures, and when one batch may test it again."""

    failures: int = 0
    until: float = 0.0


class _WorkNotifier:
    """Notifier of a lane: wakes it at once for a full batch, otherwise after a tick."""

    def __init__(self) -> None:
        self._announced = 0
        self._some = asyncio.Event()
        self._full = asyncio.Event()

    def notify(self, documents: int) -> None:
        self._announced += documents
        self._some.set()
        if self._announced >= BATCH_SIZE:
            self._full.set()

    async def wait_for_work(self, intervals: QueueIntervals) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(intervals.poll_s):
                await self._some.wait()
            async with asyncio.timeout(intervals.tick_s):
                await self._full.wait()
        self._announced = 0
        self._some.clear()
        self._full.clear()


@dataclass(slots=True)
class _QueueLane:
    """A slice of the available models with its own worker; an unresponsive provider delays its own lane
    only."""

    models: slice
    notifier: _WorkNotifier = field(default_factory=_WorkNotifier)


class EmbeddingQueue:
    """The queue worker; start `run` as a task."""

    def __init__(
        self,
        *,
        database: Database,
        spaces: SpaceRegistry,
        embedders: EmbedderRegistry,
        intervals: QueueIntervals,
    ) -> None:
        self._database = database
        self._spaces = spaces
        self._embedders = embedders
        self._intervals = intervals
        self._lanes = (_QueueLane(slice(1)), _QueueLane(slice(1, None)))
        self._failures: dict[int, _ModelFailure] = {}
        # upper limit of all delays; a job due later than this was postponed before the database clock
        # went back
        self._longest_s = JITTER * max(intervals.sweep_s, REJECTED_RETRY_S, MAX_RETRY_AFTER_S)

    def notify(self, documents: int = 1) -> None:
        """Report newly queued documents; a full batch is embedded at once, fewer after a tick."""
        for lane in self._lanes:
            lane.notifier.notify(documents)

    async def count_jobs(self) -> tuple[int, int]:
        """Return how many documents wait for a vector, and how many have used up their retries."""
        return await queue_store.count_jobs(self._database, MAX_RETRIES)

    async def run(self) -> None:
        """Embed pending documents until cancelled, with one lane for the active model and one for a new
        model."""
        async with asyncio.TaskGroup() as tasks:
            for lane in self._lanes:
                tasks.create_task(self._run_lane(lane))

    async def _run_lane(self, lane: _QueueLane) -> None:
        while True:
            await lane.notifier.wait_for_work(self._intervals)
            try:
                # another replica may have switched the model
                await self._embedders.refresh()
                while await self.embed_batch(self._embedders.working[lane.models]):
                    pass
            except ChoirError as error:
                log.warning("database unavailable; embedding queue retries", error=error.message)
                await asyncio.sleep(DATABASE_PAUSE_S)
            except Exception:  # the outermost loop: the jobs are still in the database
                log.exception("embedding batch failed")
                await asyncio.sleep(DATABASE_PAUSE_S)

    async def embed_batch(
        self, models: Sequence[tuple[int, EmbedderCircuitBreaker]] | None = None
    ) -> bool:
        """Embed one batch for the first of these models (default: all) that has work.

        Return whether more may be pending.
        """
        for model, guard in self._embedders.working if models is None else models:
            if self._may_try(model, guard) and await self._embed_pending(model, guard):
                return True
        return False

    def _may_try(self, model: int, guard: EmbedderCircuitBreaker) -> bool:
        failure = self._failures.get(model)
        # a query may have found that the provider is available again
        return failure is None or guard.trouble is None or time.monotonic() >= failure.until

    async def _embed_pending(self, model: int, guard: EmbedderCircuitBreaker) -> bool:
        """Embed one batch; return whether there may be more that would succeed."""
        # a failing model is tested with one batch
        limit = BATCH_SIZE * (1 if model in self._failures else guard.max_concurrency)
        async with self._database.transaction() as connection:
            # The rows stay locked during the call to the embedder, so that a crash releases them at
            # once.
            jobs = await queue_store.claim_jobs(connection, model, limit, self._longest_s)
            if not jobs:
                return False
            for agent_id in {job.agent_id for job in jobs}:
                await self._spaces.ensure(agent_id)
            documents = await queue_store.read_documents(connection, jobs)
            result = await self._embed(guard, documents)
            await queue_store.store_vectors(connection, model, result.embedded)
            postponed = self._postpone(jobs, result)
            await queue_store.postpone_jobs(connection, postponed)
            postponed_ids = {job.job_id for job in postponed}
            await queue_store.delete_jobs(
                connection, [j.job_id for j in jobs if j.job_id not in postponed_ids]
            )
        await self._log_result(model, result)
        return model not in self._failures

    async def _embed(
        self, guard: EmbedderCircuitBreaker, documents: Sequence[QueuedDocument]
    ) -> _BatchResult:
        result = _BatchResult()
        batches = _batches([(document, _parts(document, guard.name)) for document in documents])

        async def work() -> None:
            while batches:
                await self._embed_group(guard, batches.pop(0), result)
                if result.down is not None:
                    # the remaining batches would only wait for the same timeout
                    return

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(guard.max_concurrency, len(batches))):
                tasks.create_task(work())
        if result.down is not None:
            for batch in batches:
                result.fail([document for document, _ in batch], result.down)
        return result

    async def _embed_group(
        self,
        guard: EmbedderCircuitBreaker,
        group: Sequence[tuple[QueuedDocument, DocumentParts]],
        result: _BatchResult,
    ) -> None:
        try:
            try:
                result.embedded += await self._vectors(guard, group)
            except InvalidRequest:
                await guard.check_embedder()
                await self._embed_singly(guard, group, result)
        except ChoirError as error:
            result.down = error
            embedded_ids = {
                (embedded.document.agent_id, embedded.document.document_id)
                for embedded in result.embedded
            }
            failed_documents = [
                document
                for document, _ in group
                if (document.agent_id, document.document_id) not in embedded_ids
            ]
            result.fail(failed_documents, error)

    async def _embed_singly(
        self,
        guard: EmbedderCircuitBreaker,
        group: Sequence[tuple[QueuedDocument, DocumentParts]],
        result: _BatchResult,
    ) -> None:
        """Embed each text separately, so that one rejected text does not fail the others."""
        for item in group:
            try:
                result.embedded += await self._vectors(guard, [item])
            except InvalidRequest as error:
                result.fail([item[0]], error)

    async def _vectors(
        self, guard: EmbedderCircuitBreaker, group: Sequence[tuple[QueuedDocument, DocumentParts]]
    ) -> list[EmbeddedDocument]:
        texts = [text for _, parts in group for text in parts.values()]
        vectors: list[Vector] = []
        for at in range(0, len(texts), BATCH_SIZE):
            vectors += await guard.embed_documents(texts[at : at + BATCH_SIZE])
        halves = iter([to_halfvec(vector) for vector in vectors])
        return [
            EmbeddedDocument(document, {part: next(halves) for part in parts})
            for document, parts in group
        ]

    def _postpone(self, jobs: Sequence[EmbeddingJob], result: _BatchResult) -> list[PostponedJob]:
        postponed = []
        for job in jobs:
            error = result.failed.get((job.agent_id, job.store, job.document_id))
            if error is not None:
                refused = isinstance(error, InvalidRequest) and job.tries >= MAX_RETRIES
                wait_s = REJECTED_RETRY_S if refused else self._wait_s(job.tries, error)
                # jitter keeps the replicas' retries apart
                wait_s *= random.uniform(1.0, JITTER)  # noqa: S311 - spreads load, guards nothing
                postponed.append(PostponedJob(job.job_id, wait_s, error.message, refused))
        return postponed

    def _wait_s(self, tries: int, error: ChoirError) -> float:
        if tries >= MAX_RETRIES:
            return max(self._intervals.sweep_s, error.retry_after_s or 0.0)
        return max(self._intervals.retry_s * 2.0**tries, error.retry_after_s or 0.0)

    async def _log_result(self, model: int, result: _BatchResult) -> None:
        if result.failed:
            error = next(iter(result.failed.values()))
            log.warning(
                "embedding failed; documents will be retried",
                documents=len(result.failed),
                error=error.message,
            )
        if result.down is not None:
            failure = self._failures.setdefault(model, _ModelFailure())
            wait_s = self._intervals.retry_s * 2.0**failure.failures
            failure.until = time.monotonic() + max(wait_s, result.down.retry_after_s or 0.0)
            failure.failures = min(failure.failures + 1, MAX_RETRIES)
        elif model in self._failures and (result.embedded or result.failed):
            # a single rejected text also shows that the provider is available again
            del self._failures[model]
            await queue_store.release_jobs(self._database, model)


def _parts(document: QueuedDocument, model: str) -> DocumentParts:
    """Return the texts to embed: all passages, and the sentences of a message that states and asks."""
    parts = dict(enumerate(split_passages(document.text)))
    is_short = len(document.text) <= PASSAGE_CHARS
    if document.is_message and is_short and supports_sentences(model, document.text):
        parts |= enumerate(sentences_to_embed(document.text), FIRST_SENTENCE_PART)
    return parts


def _batches(
    documents: Sequence[tuple[QueuedDocument, DocumentParts]],
) -> list[list[tuple[QueuedDocument, DocumentParts]]]:
    """Group documents into batches of at most `BATCH_SIZE` texts; a longer document is a batch of its
    own."""
    batches: list[list[tuple[QueuedDocument, DocumentParts]]] = []
    free = 0
    for document, parts in documents:
        if not batches or len(parts) > free:
            batches.append([])
            free = BATCH_SIZE
        batches[-1].append((document, parts))
        free -= len(parts)
    return batches
