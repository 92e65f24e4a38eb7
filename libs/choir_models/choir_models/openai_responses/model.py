"""Model adapter for the Responses API."""

import asyncio
import re

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.wire.config import ModelConfig
from choir_models.client_pool import ClientPool
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ModelRequestRejected,
    OutputListener,
    Prompt,
    model_id,
)
from choir_models.openai.model import CompletionClient, post
from choir_models.openai_responses.request_codec import render_request
from choir_models.openai_responses.response_codec import read_response

_NO_REASONING = re.compile(
    r"encrypted content is not supported|reasoning\.encrypted_content", re.IGNORECASE
)


class ResponsesClientFactory:
    """Factory of clients."""

    def __init__(self, key_proxy: KeyProxy | None) -> None:
        self._key_proxy = key_proxy

    async def create(self, endpoint: str, api_key: str | None) -> CompletionClient:
        """Return a client."""
        from choir_models.openai_responses.client import (  # noqa: PLC0415 - httpx2 takes time
            ResponsesClient,
        )

        return await asyncio.to_thread(ResponsesClient, endpoint, api_key, self._key_proxy)


class OpenAiResponsesModel:
    """The configured models, each through the client for its endpoint and key."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        self._clients: ClientPool[CompletionClient] = ClientPool(ResponsesClientFactory(key_proxy))
        self._without_reasoning: set[str] = set()
        """Models that refused to send their thoughts; after a restart it is learned again."""

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Post the prompt and parse the response; streams if somebody listens."""
        origin = model_id(settings)
        if origin not in self._without_reasoning:
            try:
                return await self._send(settings, api_key, prompt, listener)
            except ModelRequestRejected as error:
                if not _NO_REASONING.search(error.message):
                    raise
            self._without_reasoning.add(origin)
            listener.restart()
        return await self._send(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()

    async def _send(
        self, settings: ModelConfig, api_key: str | None, prompt: Prompt, listener: OutputListener
    ) -> Completion:
        body = render_request(
            settings,
            prompt,
            reasoning=model_id(settings) not in self._without_reasoning,
            stream=listener is not NO_LISTENER,
        )
        answer, duration_ms = await post(
            self._clients, settings, api_key, body=body, listener=listener
        )
        return read_response(answer, settings.model, duration_ms)
