"""The service's own optional language model (`memory.model`), on an OpenAI-compatible endpoint.

Used for summaries and extraction, never in the reply path.
"""

import asyncio
from typing import TYPE_CHECKING, Protocol

import structlog

from choir_common.errors import Unavailable
from choir_common.wire.config import ModelConfig

if TYPE_CHECKING:
    from choir_memory.llm.openai_client import ChatCompletionsClient

log = structlog.get_logger("choir.memory.errands")

MAX_COMPLETION_CHARS = 60_000
"""Maximum characters; a longer summary or list of facts is unusable."""


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


class OpenAiLanguageModel:
    """One model with one request at a time, so that it does not compete with the agents."""

    def __init__(self, settings: ModelConfig, key: str | None) -> None:
        self.name = settings.model
        self._settings = settings
        self._key = key
        self._client: ChatCompletionsClient | None = None
        self._request_lock = asyncio.Lock()

    async def answer(self, instructions: str, material: str) -> str:
        """Return the completion; raises Unavailable if it is unusable, and the errors of
        `ChatCompletionsClient.complete`."""
        async with self._request_lock:
            client = self._client or await self._open()
            text = await client.complete(self._settings, instructions, material)
        if not text.strip() or len(text) > MAX_COMPLETION_CHARS:
            raise Unavailable(f"The model {self.name} returned an empty or oversized completion.")
        return text.strip()

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()

    async def _open(self) -> "ChatCompletionsClient":
        client = await asyncio.to_thread(_import_client)
        self._client = client(self._settings, self._key)
        return self._client


class ConfiguredLanguageModel:
    """The language model of the current configuration.

    Keys are never sent over the bus: a model with another secret than at startup is used only after a
    restart of the service.
    """

    def __init__(self, key: str | None, secret_name: str | None) -> None:
        """`secret_name` names the secret that `key` is the value of."""
        self._key = key
        self._secret_name = secret_name
        self._settings: ModelConfig | None = None
        self.model: LanguageModel | None = None
        """None: no model is configured."""

    async def configure(self, settings: ModelConfig | None) -> None:
        """Switch to this model if this process has its key, otherwise keep the current one."""
        if settings == self._settings:
            return
        if settings is not None and settings.secret not in (None, self._secret_name):
            log.warning(
                "the model needs another secret; it is used after a restart", model=settings.model
            )
            return
        await self.close()
        self._settings = settings
        if settings is not None:
            self.model = OpenAiLanguageModel(settings, self._key if settings.secret else None)
        log.info("language model configured", model=settings.model if settings else None)

    async def close(self) -> None:
        """Close the model."""
        if self.model is not None:
            await self.model.close()
        self.model = None


def _import_client() -> "type[ChatCompletionsClient]":
    from choir_memory.llm.openai_client import (  # noqa: PLC0415 - the SDK takes 0.3 s and 16 MB
        ChatCompletionsClient,
    )

    return ChatCompletionsClient
