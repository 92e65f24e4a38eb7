"""Readiness checks and Prometheus gauges of the service."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from choir_common.bus.client import Bus
from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.metrics import Metrics
from choir_common.postgres.pool import Database
from choir_common.wire.operator import ComponentStatus
from choir_memory.embedding.queue import EmbeddingQueue
from choir_memory.embedding.registry import EmbedderRegistry

log = structlog.get_logger("choir.memory.monitoring")

POSTGRES_TIMEOUT_S = 2.0
UPDATE_INTERVAL_S = 10.0
"""Seconds between updates; most collectors scrape every fifteen, and counting a long queue takes
milliseconds."""


@dataclass(slots=True)
class HealthCheck:
    """Readiness of the service. A failing embedder is reported but does not fail readiness: full
    text works without it."""

    database: Database
    bus: Bus
    embedders: EmbedderRegistry

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the status of each dependency: Postgres, NATS and the embedder."""
        postgres = await self._postgres()
        return (
            ComponentStatus(
                name="postgres",
                ok=postgres,
                detail="" if postgres else _("Postgres does not respond."),
            ),
            ComponentStatus(
                name="nats", ok=not self.bus.failure_reason, detail=self.bus.failure_reason
            ),
            ComponentStatus(name="embedder", ok=True, detail=self._embedder()),
        )

    def _embedder(self) -> str:
        if self.embedders.trouble is None:
            return self.embedders.name
        return _("{name}: searches use full text only. {trouble}").format(
            name=self.embedders.name, trouble=self.embedders.trouble
        )

    async def _postgres(self) -> bool:
        try:
            async with asyncio.timeout(POSTGRES_TIMEOUT_S):
                return await self.database.is_reachable()
        except TimeoutError:
            return False


class EmbeddingMetrics:
    """Gauges of the queue and of a model being built.

    They describe the whole installation, so every replica reports the same values.
    """

    def __init__(
        self, metrics: Metrics, queue: EmbeddingQueue, embedders: EmbedderRegistry
    ) -> None:
        self._queue = queue
        self._embedders = embedders
        self._waiting = metrics.gauge(
            "choir_memory_documents_without_vector",
            "Documents waiting for a vector of the active model.",
            "state",
        )
        self._troubled = metrics.gauge(
            "choir_memory_embedder_in_trouble", "1 while searches use full text only."
        )
        self._new_model = metrics.gauge(
            "choir_memory_new_model_documents",
            "Documents to re-embed for a new model, and documents done; 0 without a new model.",
            "state",
        )

    async def run(self) -> None:
        """Update the gauges every ten seconds until cancelled."""
        while True:
            try:
                await self.update()
            except ChoirError as error:
                log.debug("the gauges could not be updated", error=error.message)
            await asyncio.sleep(UPDATE_INTERVAL_S)

    async def update(self) -> None:
        """Update the gauges once."""
        queued, failed = await self._queue.count_jobs()
        self._waiting.labels("queued").set(queued)
        self._waiting.labels("failed").set(failed)
        self._troubled.set(self._embedders.trouble is not None)
        progress = await self._embedders.progress()
        self._new_model.labels("all").set((progress.documents or 0) if progress else 0)
        self._new_model.labels("done").set(progress.done if progress else 0)
