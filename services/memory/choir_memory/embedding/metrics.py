"""Prometheus gauges of the embedding pipeline. Updated by one task that `app` starts.

The gauges describe the whole installation, so every replica reports the same values.
"""

import asyncio

import structlog

from choir_common.errors import ChoirError
from choir_common.metrics import Metrics
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry

log = structlog.get_logger("choir.memory.figures")

UPDATE_INTERVAL_S = 10.0
"""Seconds between updates; most collectors scrape every fifteen, and counting a long queue takes
milliseconds."""


class EmbeddingMetrics:
    """Gauges of the queue and of a model being built."""

    def __init__(
        self, metrics: Metrics, queue: EmbeddingQueue, embedders: EmbedderRegistry
    ) -> None:
        self._queue = queue
        self._embedders = embedders
        self._waiting = metrics.gauge(
            "choir_memory_documents_without_vector",
            "Documents that wait for a vector of the model that serves.",
            "state",
        )
        self._troubled = metrics.gauge(
            "choir_memory_embedder_in_trouble", "1 while searches go by full text alone."
        )
        self._new_model = metrics.gauge(
            "choir_memory_new_model_documents",
            "Documents to embed again for another model, and those that are done; 0 without one.",
            "state",
        )

    async def run(self) -> None:
        """Update the gauges every ten seconds until cancelled."""
        while True:
            try:
                await self.look()
            except ChoirError as error:
                log.debug("figures are old", error=error.message)
            await asyncio.sleep(UPDATE_INTERVAL_S)

    async def look(self) -> None:
        """Update the gauges once."""
        queued, failed = await self._queue.counts()
        self._waiting.labels("queued").set(queued)
        self._waiting.labels("failed").set(failed)
        self._troubled.set(self._embedders.trouble is not None)
        progress = await self._embedders.progress()
        self._new_model.labels("all").set((progress.documents or 0) if progress else 0)
        self._new_model.labels("done").set(progress.done if progress else 0)
