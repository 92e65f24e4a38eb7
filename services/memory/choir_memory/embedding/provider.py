"""The embedder behind an OpenAI-compatible API, local or far.

Built by `app` when CHOIR_EMBEDDING_ENDPOINT is set; next is `provider_client`.
"""

import asyncio
import importlib
import math
from collections.abc import Sequence
from typing import Protocol

from choir_common.errors import Unavailable
from choir_memory.embedding.port import Vector


class _Client(Protocol):
    async def embeddings(self, model: str, texts: Sequence[str]) -> list[list[float]]: ...

    async def close(self) -> None: ...


class ProviderEmbedder:
    """Asks a provider for vectors, and holds it to their number and length."""

    def __init__(
        self,
        endpoint: str,
        key: str | None,
        name: str,
        dimensions: int,
        timeout_s: float,
        streams: int = 1,
    ) -> None:
        self.name = name
        self.dimensions = dimensions
        self.streams = streams
        self._endpoint = endpoint
        self._key = key
        self._timeout_s = timeout_s
        self._client: _Client | None = None
        self._opening = asyncio.Lock()

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return a vector per text; raises what `ProviderClient.embeddings` raises."""
        client = self._client or await self._open()
        vectors = await client.embeddings(self.name, texts)
        if len(vectors) != len(texts):
            raise Unavailable(
                f"The embedding provider answered {len(vectors)} vectors for {len(texts)} texts."
            )
        for vector in vectors:
            if len(vector) != self.dimensions:
                raise Unavailable(
                    f"The embedding model {self.name} gives {len(vector)} dimensions and "
                    f"{self.dimensions} are configured; correct CHOIR_EMBEDDING_DIMENSIONS."
                )
            if not all(map(math.isfinite, vector)):
                raise Unavailable("The embedding provider answered numbers that are not finite.")
        return list(vectors)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> _Client:
        async with self._opening:
            if self._client is None:
                # the one lazy import of the SDK, in a thread: see the module's docstring
                name = "choir_memory.embedding.provider_client"
                module = await asyncio.to_thread(importlib.import_module, name)
                client: _Client = module.ProviderClient(self._endpoint, self._key, self._timeout_s)
                self._client = client
            return self._client
