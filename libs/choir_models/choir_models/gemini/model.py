"""Model adapter for the Gemini API."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Protocol

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.call_deadline import call_deadline
from choir_models.client_pool import ClientPool
from choir_models.gemini.request_codec import continued_request, render_request
from choir_models.gemini.response_codec import GeminiResponse
from choir_models.model import NO_LISTENER, Completion, OutputListener, Prompt


class ContentClient(Protocol):
    """HTTP client for one endpoint with one key."""

    async def complete(
        self, model: str, body: JsonObject, timeout_s: float, headers: Mapping[str, str]
    ) -> str: ...

    def stream(
        self, model: str, body: JsonObject, timeout_s: float, headers: Mapping[str, str]
    ) -> AsyncGenerator[str]: ...

    async def close(self) -> None: ...


class GeminiClientFactory:
    """Factory of clients based on the google-genai SDK, which it imports at the first call."""

    def __init__(self, key_proxy: KeyProxy | None) -> None:
        self._key_proxy = key_proxy

    async def create(self, endpoint: str, api_key: str | None) -> ContentClient:
        """Return a client; runs in a thread, because the import takes almost a second."""
        return await asyncio.to_thread(self._create, endpoint, api_key)

    def _create(self, endpoint: str, api_key: str | None) -> ContentClient:
        from choir_models.gemini.sdk_client import GeminiClient  # noqa: PLC0415 - time and memory

        return GeminiClient(endpoint, api_key, self._key_proxy)


class GeminiModel:
    """The configured Gemini models, each through the client for its endpoint and key."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        self._clients: ClientPool[ContentClient] = ClientPool(GeminiClientFactory(key_proxy))

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Post the prompt and parse the response; streams if somebody listens."""
        body = render_request(settings, prompt)
        async with self._clients.borrow(settings.endpoint, api_key) as client:
            began = time.perf_counter()
            response = GeminiResponse()
            async with call_deadline(settings.timeout_ms / 1000):
                await self._receive(client, settings, body, listener, response)
                while token := response.take_continuation():
                    request = continued_request(body, token, response.written_tokens)
                    await self._receive(client, settings, request, listener, response)
            return response.completion(settings.model, (time.perf_counter() - began) * 1000)

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()

    async def _receive(
        self,
        client: ContentClient,
        settings: ModelConfig,
        body: JsonObject,
        listener: OutputListener,
        response: GeminiResponse,
    ) -> None:
        timeout_s, headers = settings.timeout_ms / 1000, settings.request.extra_headers
        if listener is NO_LISTENER:
            response.add(await client.complete(settings.model, body, timeout_s, headers))
            return
        stream = client.stream(settings.model, body, timeout_s, headers)
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                hidden = response.hidden_characters
                text = response.add(chunk)
                if text:
                    listener.add_text(text)
                if response.hidden_characters > hidden:
                    listener.add_hidden(response.hidden_characters - hidden)
