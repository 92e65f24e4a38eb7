"""Embedder for an OpenAI-compatible API, local or remote; used when an endpoint is configured."""

import asyncio
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from choir_common.errors import InvalidRequest, Unavailable
from choir_common.i18n import _
from choir_memory.embedding.embedder import Vector
from choir_memory.usage.reporter import UsageReporter

if TYPE_CHECKING:
    from choir_memory.embedding.provider_client import ProviderClient

UNIT_LENGTH_RANGE = (0.5, 2.0)


class ProviderEmbedder:
    """Embedder that requests vectors from a provider, and checks their number and length."""

    def __init__(
        self,
        *,
        endpoint: str,
        key: str | None,
        name: str,
        dimensions: int,
        timeout_s: float,
        usage: UsageReporter,
        max_concurrency: int = 1,
    ) -> None:
        self._usage = usage
        self.name = name
        self.dimensions = dimensions
        self.max_concurrency = max_concurrency
        self._endpoint = endpoint
        self._key = key
        self._timeout_s = timeout_s
        self._client: ProviderClient | None = None
        self._opening = asyncio.Lock()
        self._shortens = False

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per text; raises the errors of `ProviderClient.embeddings`, and Unavailable."""
        client = self._client or await self._open()
        dimensions = self.dimensions if self._shortens else None
        vectors = await client.embeddings(self.name, texts, dimensions)
        if dimensions is None and any(len(vector) != self.dimensions for vector in vectors):
            vectors = await self._shortened(client, texts, len(vectors[0]))
        if len(vectors) != len(texts):
            raise Unavailable(
                _("The embedding provider returned {vectors} vectors for {texts} texts.").format(
                    vectors=len(vectors), texts=len(texts)
                )
            )
        return [self._checked(vector) for vector in vectors]

    async def close(self) -> None:
        """Close the connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _shortened(
        self, client: "ProviderClient", texts: Sequence[str], length: int
    ) -> list[Vector]:
        """Request the configured length explicitly: some models support several and return the longest by
        default."""
        try:
            vectors = await client.embeddings(self.name, texts, self.dimensions)
        except InvalidRequest as error:
            raise self._wrong_length(length) from error
        self._shortens = all(len(vector) == self.dimensions for vector in vectors)
        return vectors

    def _checked(self, vector: Vector) -> Vector:
        """Return the vector, scaled to unit length if halfvec might not represent it; only its direction
        matters."""
        if len(vector) != self.dimensions:
            raise self._wrong_length(len(vector))
        length = math.hypot(*vector)
        if not math.isfinite(length) or length == 0:
            raise Unavailable(_("The embedding provider returned a zero or non-finite vector."))
        if UNIT_LENGTH_RANGE[0] <= length <= UNIT_LENGTH_RANGE[1]:
            return vector
        return [value / length for value in vector]

    def _wrong_length(self, length: int) -> Unavailable:
        return Unavailable(
            _(
                "The embedding model {name} gives {length} dimensions and {dimensions} are configured; "
                "correct embedding.dimensions in config.json, or CHOIR_EMBEDDING_DIMENSIONS."
            ).format(name=self.name, length=length, dimensions=self.dimensions)
        )

    async def _open(self) -> "ProviderClient":
        async with self._opening:
            if self._client is None:
                client = await asyncio.to_thread(_import_client)
                self._client = client(
                    self._endpoint, self._key, timeout_s=self._timeout_s, usage=self._usage
                )
            return self._client


def _import_client() -> "type[ProviderClient]":
    from choir_memory.embedding.provider_client import (  # noqa: PLC0415 - aiohttp takes 0.1 s
        ProviderClient,
    )

    return ProviderClient
