"""Model adapter for the Messages API. The SDK is imported at the first call, in a thread."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Protocol

import orjson

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.anthropic.request import render_request, request_headers
from choir_models.anthropic.response import (
    PAUSED,
    ReceivedMessage,
    join_messages,
    read_message_body,
    read_response,
)
from choir_models.anthropic.sdk_import import import_client_class
from choir_models.anthropic.stream import StreamedMessage
from choir_models.call_deadline import call_deadline
from choir_models.client_pool import ClientPool
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ModelRequestRejected,
    OutputListener,
    Prompt,
    model_id,
)
from choir_models.output_limits import token_count

MAX_PAUSES = 5
UNBOUND_THINKING = "bound to a different conversation"


class MessagesClient(Protocol):
    """HTTP client for one endpoint with one key."""

    async def complete(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> bytes: ...

    def stream(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str]
    ) -> AsyncGenerator[JsonObject | bytes, None]: ...

    async def close(self) -> None: ...


class AnthropicClientFactory:
    """Factory of clients based on the anthropic SDK, which it imports at the first call."""

    def __init__(self, key_proxy: KeyProxy | None) -> None:
        self._key_proxy = key_proxy

    async def create(self, endpoint: str, api_key: str | None) -> MessagesClient:
        """Return a client; runs in a thread, because the import takes 0.4 s."""
        return await asyncio.to_thread(self._create, endpoint, api_key)

    def _create(self, endpoint: str, api_key: str | None) -> MessagesClient:
        return import_client_class()(endpoint, api_key, self._key_proxy)


class AnthropicModel:
    """The configured models, each through the client for its endpoint and key."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        self._clients: ClientPool[MessagesClient] = ClientPool(AnthropicClientFactory(key_proxy))
        # Models that refuse thoughts from before a change of the history, unless told to drop them.
        self._binding_models: set[str] = set()

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Post the prompt and parse the response; raises RateLimited or ModelFailed."""
        origin = model_id(settings)
        try:
            return await self._think(settings, api_key, prompt, listener)
        except ModelRequestRejected as error:
            if UNBOUND_THINKING not in error.message or origin in self._binding_models:
                raise
        # Compaction and the tools of a skill's step change what precedes a thought.
        self._binding_models.add(origin)
        listener.restart()
        return await self._think(settings, api_key, prompt, listener)

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()

    async def _think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener,
    ) -> Completion:
        drops = model_id(settings) in self._binding_models
        request = render_request(settings, prompt, drops_unbound_thinking=drops)
        headers = request_headers(settings, drops_unbound_thinking=drops)
        timeout_s = settings.timeout_ms / 1000
        async with self._clients.borrow(settings.endpoint, api_key) as client:
            began = time.perf_counter()
            call = _Call(client=client, timeout_s=timeout_s, headers=headers, listener=listener)
            async with call_deadline(timeout_s):
                message = await _complete(call, request)
            return read_response(message, settings.model, (time.perf_counter() - began) * 1000)


class _Call:
    """One call of a model: where it goes, and who hears the output."""

    def __init__(
        self,
        *,
        client: MessagesClient,
        timeout_s: float,
        headers: Mapping[str, str],
        listener: OutputListener,
    ) -> None:
        self._client = client
        self._timeout_s = timeout_s
        self._headers = headers
        self._listener = listener

    async def send(self, request: JsonObject) -> ReceivedMessage:
        """Send a request and return the message; streams it if somebody listens."""
        if self._listener is NO_LISTENER:
            body = orjson.dumps(request)
            answer = await self._client.complete(body, self._timeout_s, self._headers)
            return read_message_body(answer)
        body = orjson.dumps({**request, "stream": True})
        message = StreamedMessage(self._listener)
        async with aclosing(self._client.stream(body, self._timeout_s, self._headers)) as events:
            async for event in events:
                if isinstance(event, bytes):
                    return read_message_body(event)
                message.add(event)
        return message.finish()


async def _complete(call: _Call, request: JsonObject) -> ReceivedMessage:
    """Return the message, with its continuations if the provider paused it during its own tools."""
    message = await call.send(request)
    for _ in range(MAX_PAUSES):
        if message.stop_reason != PAUSED:
            break
        messages = request["messages"]
        sent = messages if isinstance(messages, list) else []
        paused: JsonObject = {"role": "assistant", "content": [*message.content]}
        # The limit is that of the whole output.
        rest_limit = token_count(request["max_tokens"]) - token_count(
            message.usage.get("output_tokens")
        )
        rest: JsonObject = {"messages": [*sent, paused], "max_tokens": max(rest_limit, 1)}
        then = await call.send({**request, **rest})
        message = join_messages(message, then)
    return message
