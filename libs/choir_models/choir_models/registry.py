"""The adapters of all model APIs, each imported when a model that needs it is called first."""

import asyncio
from importlib import import_module

from choir_common.wire.config import ModelConfig
from choir_common.wire.model_config import ModelApi
from choir_models.model import NO_LISTENER, ChatModel, Completion, OutputListener, Prompt

ADAPTERS: dict[ModelApi, str] = {
    "openai": "choir_models.openai.model:OpenAiModel",
}
"""Module and class of each API's adapter."""


class ModelRegistry:
    """All models, each through the adapter for its API."""

    def __init__(self) -> None:
        self._adapters: dict[ModelApi, ChatModel] = {}
        self._import_lock = asyncio.Lock()

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; raises the errors of `ChatModel.think`."""
        adapter = self._adapters.get(settings.api) or await self._create(settings.api)
        return await adapter.think(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close all adapters that were used."""
        for adapter in self._adapters.values():
            await adapter.close()

    async def _create(self, api: ModelApi) -> ChatModel:
        async with self._import_lock:
            if api not in self._adapters:
                # in a thread: an SDK takes up to a second to import
                self._adapters[api] = await asyncio.to_thread(_import_adapter, api)
        return self._adapters[api]


def _import_adapter(api: ModelApi) -> ChatModel:
    module, name = ADAPTERS[api].split(":")
    adapter: ChatModel = getattr(import_module(module), name)()
    return adapter
