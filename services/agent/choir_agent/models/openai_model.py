"""Model adapter for OpenAI-compatible endpoints.

The SDK is imported at the first call, in a thread: an idle agent stays small, and no heartbeat is delayed by
the import.
"""

import asyncio
import time

from choir_agent.models.client_pool import ClientPool, CompletionClient
from choir_agent.models.completion_codec import read_response, render_request
from choir_agent.models.model import Completion, ModelFailed
from choir_agent.models.sdk_import import import_client_class
from choir_agent.prompt.prompt_assembler import Prompt
from choir_common.wire.config import ModelConfig


class OpenAiClientFactory:
    """Factory of clients based on the openai SDK, which it imports at the first call."""

    async def create(self, endpoint: str, api_key: str | None) -> CompletionClient:
        """Return a client; runs in a thread, because the import takes 0.3 s."""
        return await asyncio.to_thread(self._create, endpoint, api_key)

    def _create(self, endpoint: str, api_key: str | None) -> CompletionClient:
        return import_client_class()(endpoint, api_key)


class OpenAiModel:
    """The configured models, each through the client for its endpoint and key."""

    def __init__(self) -> None:
        self._clients = ClientPool(OpenAiClientFactory())

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Completion:
        """Post the prompt and parse the response; raises RateLimited or ModelFailed."""
        body = render_request(settings, prompt)
        timeout_s = settings.timeout_ms / 1000
        async with self._clients.borrow(settings.endpoint, api_key) as client:
            began = time.perf_counter()
            try:
                # The SDK's timeout applies to each read; this one also ends a response that arrives in
                # small pieces.
                async with asyncio.timeout(timeout_s):
                    headers = settings.request.extra_headers
                    answer = await client.complete(body, timeout_s, headers)
            except TimeoutError as error:
                message = f"the provider did not answer within {timeout_s:g} s"
                raise ModelFailed(message, cause="timeout") from error
            return read_response(answer, settings.model, (time.perf_counter() - began) * 1000)

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()
