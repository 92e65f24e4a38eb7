"""Embedder for an OpenAI-compatible API, local or remote.

Built when an embedding endpoint is configured; next is `provider_client`.
"""

import asyncio
import importlib
import math
from collections.abc import Sequence
from typing import Protocol

from choir_common.errors import InvalidRequest, Unavailable
from choir_memory.embedding.embedder import Vector

UNIT_LENGTH_RANGE = (0.5, 2.0)


class _EmbeddingsClient(Protocol):
    async def embeddings(
        self, model: str, texts: Sequence[str], dimensions: int | None
    ) -> list[Vector]: ...

    async def close(self) -> None: ...


class ProviderEmbedder:
    """Embedder that requests vectors from a provider, and checks their number and length."""

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
        self.max_concurrency = streams
        self._endpoint = endpoint
        self._key = key
        self._timeout_s = timeout_s
        self._client: _EmbeddingsClient | None = None
        self._opening = asyncio.Lock()
        self._shortens = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; raises the errors of `ProviderClient.embeddings`, and Unavailable."""
        client = self._client or await self._open()
        asked = self.dimensions if self._shortens else None
        vectors = await client.embeddings(self.name, texts, asked)
        if asked is None and any(len(vector) != self.dimensions for vector in vectors):
            vectors = await self._shortened(client, texts, len(vectors[0]))
        if len(vectors) != len(texts):
            raise Unavailable(
                f"The embedding provider answered {len(vectors)} vectors for {len(texts)} texts."
            )
        return [self._checked(vector) for vector in vectors]

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _shortened(
        self, client: _EmbeddingsClient, texts: Sequence[str], found: int
    ) -> list[Vector]:
        """Request the configured length explicitly: some models support several and return the longest by
        default."""
        try:
            vectors = await client.embeddings(self.name, texts, self.dimensions)
        except InvalidRequest as error:
            raise self._wrong_length(found) from error
        self._shortens = all(len(vector) == self.dimensions for vector in vectors)
        return vectors

    def _checked(self, vector: Vector) -> Vector:
        """Return the vector, scaled to unit length if halfvec might not represent it; only its direction
        matters."""
        if len(vector) != self.dimensions:
            raise self._wrong_length(len(vector))
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0:
            raise Unavailable("The embedding provider answered numbers that are no direction.")
        if UNIT_LENGTH_RANGE[0] <= length <= UNIT_LENGTH_RANGE[1]:
            return vector
        return [value / length for value in vector]

    def _wrong_length(self, found: int) -> Unavailable:
        return Unavailable(
            f"The embedding model {self.name} gives {found} dimensions and {self.dimensions} are "
            "configured; correct embedding.dimensions in config.json, or "
            "CHOIR_EMBEDDING_DIMENSIONS."
        )

    async def _open(self) -> _EmbeddingsClient:
        async with self._opening:
            if self._client is None:
                # imported on first use, in a thread: see the docstring of provider_client
                name = "choir_memory.embedding.provider_client"
                module = await asyncio.to_thread(importlib.import_module, name)
                client: _EmbeddingsClient = module.ProviderClient(
                    self._endpoint, self._key, self._timeout_s
                )
                self._client = client
            return self._client
