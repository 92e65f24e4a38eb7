"""Health endpoints `/livez` and `/readyz`. Built by `app`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.bus.client import Bus
from choir_common.postgres.pool import Database
from choir_common.wire.operator import ComponentStatus
from choir_memory.embedding.registry import EmbedderRegistry

CHECK_S = 2.0


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
                name="postgres", ok=postgres, detail="" if postgres else "It does not answer."
            ),
            ComponentStatus(
                name="nats", ok=not self.bus.failure_reason, detail=self.bus.failure_reason
            ),
            ComponentStatus(name="embedder", ok=True, detail=self._embedder()),
        )

    def _embedder(self) -> str:
        if self.embedders.trouble is None:
            return self.embedders.name
        return f"{self.embedders.name}: full text alone for now. {self.embedders.trouble}"

    async def _postgres(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_S):
                return await self.database.is_reachable()
        except TimeoutError:
            return False
