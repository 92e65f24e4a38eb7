"""Circuit breaker, query deadline, query batches and query cache around an embedder.

Query vectors have a deadline and a circuit breaker; documents may wait.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pgvector import HalfVector

from choir_common.clock import Clock
from choir_common.errors import ChoirError, DeadlineExceeded, InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_memory.embedding.embedder import BATCH_SIZE, Embedder, Vector, to_halfvec

FAILURES_TO_OPEN = 3
OPEN_DURATION_S = 5.0
"""Seconds for which the open circuit rejects queries; then one query tests the embedder."""
CACHED_QUERIES = 1_024
"""Cached query vectors; with 384 dimensions about 1 KB each."""
MAX_QUERY_CHARS = 2_000
"""A longer query is a pasted document, and its beginning is enough."""
PROBE_TEXT = "memory"
"""A text that every embedder accepts."""


@dataclass(slots=True)
class _PendingBatch:
    texts: list[str] = field(default_factory=list)
    vectors: Sequence[Vector] | None = None
    refused: bool = False
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class DocumentEmbedder(Protocol):
    """An embedder that may raise InvalidRequest for one of the texts."""

    async def embed_documents(self, texts: Sequence[str]) -> Sequence[Vector]: ...


class QueryBatcher:
    """Batch query texts that wait at the same time into one call of the embedder.

    A call to a provider costs this process more CPU than the vectors in it: while the maximum of
    concurrent calls is running, further queries wait and share the next batch.
    """

    def __init__(self, embedder: DocumentEmbedder, max_calls: int) -> None:
        self._embedder = embedder
        self._slots = asyncio.Semaphore(max_calls)
        self._next = _PendingBatch()

    async def embed(self, text: str) -> Vector:
        """Return the vector of a text; raises the errors of the embedder."""
        if len(self._next.texts) == BATCH_SIZE:
            self._next = _PendingBatch()
        batch, index = self._next, len(self._next.texts)
        batch.texts.append(text)
        async with batch.lock:
            # if the caller that ran the batch failed or was cancelled, the next waiter runs it
            if batch.vectors is None and not batch.refused:
                await self._embed_batch(batch)
        if batch.vectors is not None:
            return batch.vectors[index]
        # one text of the batch was rejected: embed each on its own, so that the others succeed
        async with self._slots:
            return (await self._embedder.embed_documents([text]))[0]

    async def _embed_batch(self, batch: _PendingBatch) -> None:
        async with self._slots:
            if batch is self._next:
                self._next = _PendingBatch()
            try:
                batch.vectors = await self._embedder.embed_documents(batch.texts)
            except InvalidRequest:
                if len(batch.texts) == 1:
                    raise
                batch.refused = True


class EmbedderCircuitBreaker:
    """An embedder with failure tracking and a query cache."""

    def __init__(self, embedder: Embedder, clock: Clock, query_deadline_s: float) -> None:
        self._embedder = embedder
        self._clock = clock
        self._query_deadline_s = query_deadline_s
        self._failures = 0
        self._closed_again_at = 0.0
        self._cache: OrderedDict[str, HalfVector] = OrderedDict()
        self._batcher = QueryBatcher(self, embedder.max_concurrency)
        self.trouble: str | None = None
        """The last error while the embedder fails, or None."""

    @property
    def name(self) -> str:
        """Return the model's name."""
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        """Return the length of its vectors."""
        return self._embedder.dimensions

    @property
    def max_concurrency(self) -> int:
        """Return the number of useful concurrent calls."""
        return self._embedder.max_concurrency

    async def embed_query(self, text: str) -> HalfVector:
        """Return a query's vector; raises a ChoirError within the query deadline."""
        text = text[:MAX_QUERY_CHARS]
        if (cached := self._cache.get(text)) is not None:
            self._cache.move_to_end(text)
            return cached
        if self._failures >= FAILURES_TO_OPEN:
            now = self._clock.monotonic()
            if now < self._closed_again_at:
                raise Unavailable(self.trouble)
            # this query tests the embedder; the others are still rejected at once
            self._closed_again_at = now + OPEN_DURATION_S
        try:
            async with asyncio.timeout(self._query_deadline_s):
                vector = to_halfvec(await self._embed_text(text))
        except TimeoutError as error:
            # counted here; other errors are counted in embed_documents
            timeout = DeadlineExceeded(_("The embedding model did not answer in time."))
            self._record_failure(timeout)
            raise timeout from error
        self._cache[text] = vector
        if len(self._cache) > CACHED_QUERIES:
            self._cache.popitem(last=False)
        return vector

    async def _embed_text(self, text: str) -> Vector:
        # not batched for the offline model (one stream): its vectors vary slightly with the batch
        if self._embedder.max_concurrency == 1:
            return (await self.embed_documents([text]))[0]
        return await self._batcher.embed(text)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return the vectors of documents; raises the errors of the embedder."""
        try:
            vectors = await self._embedder.embed(texts)
        except InvalidRequest:
            raise  # the text was rejected; the embedder works
        except ChoirError as error:
            self._record_failure(error)
            raise
        self._failures = 0
        self.trouble = None
        return vectors

    async def check_embedder(self) -> None:
        """Check that a rejected call was rejected because of its text.

        Embeds a harmless text. Raises Unavailable when that is rejected as well, and the errors of the
        embedder.
        """
        try:
            await self.embed_documents([PROBE_TEXT])
        except InvalidRequest as error:
            failure = Unavailable(
                _("The embedder rejects every text. {message}").format(message=error.message)
            )
            self._record_failure(failure)
            raise failure from error

    async def close(self) -> None:
        """Close the embedder."""
        await self._embedder.close()

    def _record_failure(self, error: ChoirError) -> None:
        self._failures += 1
        self.trouble = error.message
        if self._failures == FAILURES_TO_OPEN:
            self._closed_again_at = self._clock.monotonic() + OPEN_DURATION_S
