"""Model adapter for OpenAI-compatible endpoints."""

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Protocol

from choir_common.egress.key_placeholders import KeyProxy
from choir_common.wire.config import ModelConfig
from choir_models.call_deadline import call_deadline
from choir_models.client_pool import ClientPool
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ModelFailed,
    NoModelResponse,
    OutputListener,
    Prompt,
    model_id,
)
from choir_models.openai.codec import Streaming, read_response, render_request


class CompletionClient(Protocol):
    """HTTP client for one endpoint with one key."""

    async def complete(
        self, body: bytes, timeout_s: float, headers: Mapping[str, str], listener: OutputListener
    ) -> bytes: ...

    async def close(self) -> None: ...


class OpenAiClientFactory:
    """Factory of clients."""

    def __init__(self, key_proxy: KeyProxy | None) -> None:
        self._key_proxy = key_proxy

    async def create(self, endpoint: str, api_key: str | None) -> CompletionClient:
        """Return a client; in a thread, because loading the certificates takes 30 ms."""
        from choir_models.openai.client import OpenAiClient  # noqa: PLC0415 - httpx2 takes time

        return await asyncio.to_thread(OpenAiClient, endpoint, api_key, self._key_proxy)


async def post(
    clients: ClientPool[CompletionClient],
    settings: ModelConfig,
    api_key: str | None,
    *,
    body: bytes,
    listener: OutputListener,
) -> tuple[bytes, float]:
    """Post a request and return the response's body and the duration in milliseconds."""
    timeout_s = settings.timeout_ms / 1000
    async with clients.borrow(settings.endpoint, api_key) as client:
        began = time.perf_counter()
        async with call_deadline(timeout_s):
            headers = settings.request.extra_headers
            answer = await client.complete(body, timeout_s, headers, listener)
        return answer, (time.perf_counter() - began) * 1000


_ABOUT_STREAMING = re.compile(r"\bstream(ing|ed)?\b|stream_options|include_usage", re.IGNORECASE)
_NOT_OFFERED = re.compile(
    r"not (supported|implemented|allowed|available)|unsupported", re.IGNORECASE
)
_SYSTEM_FIRST = re.compile(
    r"system (message|role|prompt)s?\b.{0,40}\b(beginning|first|start|top)|unexpected role .?system|"
    r"roles must alternate",
    re.IGNORECASE,
)
"""Errors of chat templates, and of Mistral's API."""
_ABOUT_OPTIONS = re.compile(r"stream_options|include_usage", re.IGNORECASE)


class StreamingCache:
    """How each model streams, as learned from refused requests; after a restart it is learned again."""

    def __init__(self) -> None:
        self._modes: dict[str, Streaming] = {}

    def of(self, model: ModelConfig) -> Streaming:
        """Return how a request to the model asks for the response if somebody listens."""
        return self._modes.get(model_id(model), Streaming.COUNTED)

    def learn(self, model: ModelConfig, tried: Streaming, error: ModelFailed) -> bool:
        """Record that a server refuses to stream; return whether the request is to be sent again."""
        if tried is Streaming.NONE or error.cause not in ("request", "refused", "provider"):
            return False
        if not _ABOUT_STREAMING.search(error.message):
            return False
        # A fault of the provider's servers passes, although it may have ended a stream.
        if isinstance(error, NoModelResponse) and not _NOT_OFFERED.search(error.message):
            return False
        is_about_options = tried is Streaming.COUNTED and _ABOUT_OPTIONS.search(error.message)
        self._modes[model_id(model)] = Streaming.UNCOUNTED if is_about_options else Streaming.NONE
        return True


class OpenAiModel:
    """The configured models, each through the client for its endpoint and key."""

    def __init__(self, key_proxy: KeyProxy | None = None) -> None:
        self._clients: ClientPool[CompletionClient] = ClientPool(OpenAiClientFactory(key_proxy))
        self._streaming = StreamingCache()
        # Models whose chat template refuses system messages inside a conversation.
        self._system_first: set[str] = set()

    async def think(
        self,
        settings: ModelConfig,
        api_key: str | None,
        prompt: Prompt,
        listener: OutputListener = NO_LISTENER,
    ) -> Completion:
        """Post the prompt and parse the response; raises RateLimited or ModelFailed.

        With a listener it asks for a stream; a server that refuses is asked for a whole response. A model
        whose template refuses system messages inside a conversation gets them as the user's.
        """
        while True:
            is_heard = listener is not NO_LISTENER
            streaming = self._streaming.of(settings) if is_heard else Streaming.NONE
            origin = model_id(settings)
            body = render_request(
                settings, prompt, streaming, system_is_first=origin in self._system_first
            )
            try:
                answer, duration_ms = await post(
                    self._clients, settings, api_key, body=body, listener=listener
                )
                return read_response(answer, settings.model, duration_ms)
            except ModelFailed as error:
                if origin not in self._system_first and _SYSTEM_FIRST.search(error.message):
                    self._system_first.add(origin)
                elif not self._streaming.learn(settings, streaming, error):
                    raise
                listener.restart()

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()
