"""The adapters of all model APIs, each imported when a model that needs it is called first."""

import asyncio
from importlib import import_module

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.wire.config import ModelConfig
from choir_common.wire.model_config import ModelApi
from choir_models.context_windows import ContextWindows
from choir_models.model import NO_LISTENER, ChatModel, Completion, OutputListener, Prompt
from choir_models.refused_parameters import AdaptingModel

ADAPTERS: dict[ModelApi, str] = {
    "ollama": "choir_models.ollama.model:OllamaModel",
    "openai": "choir_models.openai.model:OpenAiModel",
    "openai-responses": "choir_models.openai_responses.model:OpenAiResponsesModel",
    "anthropic": "choir_models.anthropic.model:AnthropicModel",
    "gemini": "choir_models.gemini.model:GeminiModel",
}
"""Module and class of each API's adapter."""


class ModelRegistry:
    """All models, each through the adapter for its API."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        """Set the proxy that adds keys; None if there are no placeholders."""
        self._key_proxy = key_proxy
        self._adapters: dict[ModelApi, ChatModel] = {}
        self._import_lock = asyncio.Lock()
        self.windows = ContextWindows(key_proxy=key_proxy)
        """Context windows of the models, as their servers report them."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Return the model's output; raises the errors of `ChatModel.think`."""
        if settings.api == "ollama" and settings.context_window is None:
            # Ollama reloads a model whenever the requested length changes.
            settings = await self.windows.fill_in(settings, api_key)
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
                adapter = await asyncio.to_thread(_import_adapter, api, self._key_proxy)
                self._adapters[api] = AdaptingModel(adapter)
        return self._adapters[api]


def _import_adapter(api: ModelApi, key_proxy: KeyProxy | None) -> ChatModel:
    module, name = ADAPTERS[api].split(":")
    adapter: ChatModel = getattr(import_module(module), name)(key_proxy)
    return adapter
