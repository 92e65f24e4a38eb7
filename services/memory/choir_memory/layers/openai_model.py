"""The service's language model on an OpenAI-compatible endpoint.

Built when `memory.model` names one; next is `openai_client`, imported for the first request.
"""

import asyncio
import importlib
from typing import Protocol

from choir_common.errors import Unavailable
from choir_common.wire.config import ModelConfig

MAX_ANSWER = 60_000
"""Maximum characters; a longer summary or list of facts is unusable."""


class _Client(Protocol):
    async def complete(self, settings: ModelConfig, instructions: str, material: str) -> str: ...

    async def close(self) -> None: ...


class OpenAiModel:
    """One model with one request at a time, so that it does not compete with the agents at their
    provider."""

    def __init__(self, settings: ModelConfig, key: str | None) -> None:
        self.name = settings.model
        self._settings = settings
        self._key = key
        self._client: _Client | None = None
        self._turn = asyncio.Lock()

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises the errors of `OpenAiClient.complete`, and Unavailable if it is
        unusable."""
        async with self._turn:
            client = self._client or await self._open()
            text = await client.complete(self._settings, instructions, material)
        if not text.strip() or len(text) > MAX_ANSWER:
            raise Unavailable(f"The model {self.name} gave no usable answer.")
        return text.strip()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> _Client:
        # imported on first use: the SDK takes 0.3 s and 16 MB, and many installations never need it
        name = "choir_memory.layers.openai_client"
        module = await asyncio.to_thread(importlib.import_module, name)
        client: _Client = module.OpenAiClient(self._settings, self._key)
        self._client = client
        return client
