"""Model adapter for OpenAI-compatible endpoints.

The SDK is imported at the first call, in a thread: an idle agent stays small, and no heartbeat is delayed by
the import. The edge lane and core jobs alternate between models, and a key may change during a call: a client
in use is never closed, and a changed key applies to the next call.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from choir_common.wire.config import ModelConfig
from choir_models.model import NO_LISTENER, Completion, ModelFailed, OutputListener, Prompt
from choir_models.openai.codec import read_response, render_request
from choir_models.openai.sdk_import import import_client_class

MAX_CLIENTS = 4


class CompletionClient(Protocol):
    """HTTP client for one endpoint with one key."""

    async def complete(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> bytes: ...

    async def close(self) -> None: ...


class ClientFactory(Protocol):
    """Factory of clients."""

    async def create(self, endpoint: str, api_key: str | None) -> CompletionClient: ...


@dataclass(slots=True, eq=False)
class _PooledClient:
    client: CompletionClient
    users: int = 0


class ClientPool:
    """HTTP clients, one for each endpoint and key, limited to the most recently used."""

    def __init__(
        self,
        factory: ClientFactory,
        max_clients: int = MAX_CLIENTS,
    ) -> None:
        self._factory = factory
        self._max_clients = max_clients
        # Ordered by last use.
        self._clients: dict[tuple[str, str | None], _PooledClient] = {}
        self._making = asyncio.Lock()

    @asynccontextmanager
    async def borrow(self, endpoint: str, api_key: str | None) -> AsyncIterator[CompletionClient]:
        """Yield the client for an endpoint and key; it stays open for the duration of the context."""
        pooled = await self._find(endpoint, api_key)
        pooled.users += 1
        try:
            yield pooled.client
        finally:
            pooled.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        """Close all clients."""
        clients, self._clients = self._clients, {}
        for pooled in clients.values():
            await pooled.client.close()

    async def _find(self, endpoint: str, api_key: str | None) -> _PooledClient:
        key = (endpoint, api_key)
        async with self._making:
            pooled = self._clients.pop(key, None)
            if pooled is None:
                pooled = _PooledClient(await self._factory.create(endpoint, api_key))
            self._clients[key] = pooled
        return pooled

    async def _close_surplus(self) -> None:
        surplus = len(self._clients) - self._max_clients
        # Never close the last used client: it is the most likely to be used again.
        older = list(self._clients.items())[:-1]
        idle = [key for key, pooled in older if pooled.users == 0]
        # Remove before the first await: a concurrent caller then gets a new client, never one that is
        # closing.
        closing = [self._clients.pop(key) for key in idle[: max(0, surplus)]]
        for pooled in closing:
            await pooled.client.close()


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

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
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
