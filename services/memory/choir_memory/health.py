"""Health endpoints `/livez` and `/readyz`. Built by `app`."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.bus.client import Bus
from choir_common.postgres.pool import Database
from choir_common.wire.operator import PartStatus
from choir_memory.embedding.embedders import Embedders

CHECK_S = 2.0


@dataclass(slots=True)
class Health:
    """Readiness of the service. A failing embedder is reported but does not fail readiness: full
    text works without it."""

    database: Database
    bus: Bus
    embedders: Embedders

    async def check(self) -> Sequence[PartStatus]:
        """Return the status of each dependency: Postgres, NATS and the embedder."""
        postgres = await self._postgres()
        return (
            PartStatus(
                name="postgres", ok=postgres, detail="" if postgres else "It does not answer."
            ),
            PartStatus(name="nats", ok=not self.bus.trouble, detail=self.bus.trouble),
            PartStatus(name="embedder", ok=True, detail=self._embedder()),
        )

    def _embedder(self) -> str:
        if self.embedders.trouble is None:
            return self.embedders.name
        return f"{self.embedders.name}: full text alone for now. {self.embedders.trouble}"

    async def _postgres(self) -> bool:
        try:
            async with asyncio.timeout(CHECK_S):
                return await self.database.reachable()
        except TimeoutError:
            return False
