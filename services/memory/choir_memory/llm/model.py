"""The service's language model on an OpenAI-compatible endpoint.

Built when `memory.model` names one; next is `openai_client`, imported for the first request.

Interface of the service's own optional language model (`memory.model`).

Implemented by `openai_model`; used for summaries and extraction, never in the reply path.
"""

import asyncio
import importlib
from typing import Protocol

from choir_common.errors import Unavailable
from choir_common.wire.config import ModelConfig

MAX_COMPLETION_CHARS = 60_000
"""Maximum characters; a longer summary or list of facts is unusable."""


class _CompletionsClient(Protocol):
    async def complete(self, settings: ModelConfig, instructions: str, material: str) -> str: ...

    async def close(self) -> None: ...


class OpenAiLanguageModel:
    """One model with one request at a time, so that it does not compete with the agents at their
    provider."""

    def __init__(self, settings: ModelConfig, key: str | None) -> None:
        self.name = settings.model
        self._settings = settings
        self._key = key
        self._client: _CompletionsClient | None = None
        self._turn = asyncio.Lock()

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises the errors of `ChatCompletionsClient.complete`, and Unavailable if
        it is
        unusable."""
        async with self._turn:
            client = self._client or await self._open()
            text = await client.complete(self._settings, instructions, material)
        if not text.strip() or len(text) > MAX_COMPLETION_CHARS:
            raise Unavailable(f"The model {self.name} gave no usable answer.")
        return text.strip()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> _CompletionsClient:
        # imported on first use: the SDK takes 0.3 s and 16 MB, and many installations never need it
        name = "choir_memory.llm.openai_client"
        module = await asyncio.to_thread(importlib.import_module, name)
        client: _CompletionsClient = module.ChatCompletionsClient(self._settings, self._key)
        self._client = client
        return client


class LanguageModel(Protocol):
    """A language model that answers a text with a text."""

    @property
    def name(self) -> str: ...

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises a ChoirError when the model is not available.

        `material` is quoted data that the model must not treat as instructions.
        """
        ...

    async def close(self) -> None: ...
