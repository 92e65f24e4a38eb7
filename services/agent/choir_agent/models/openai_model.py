"""Think through an OpenAI-compatible endpoint (spec 21.1).

Called by the turn. The SDK is imported at the first call, in a thread, so that an idle agent stays small
and a heartbeat is never late because of an import.
"""

import asyncio
import time
from typing import Protocol, cast

from choir_agent.models.completion import read_response, render_request
from choir_agent.models.model import ModelFailed, Thought
from choir_agent.models.sdk_import import import_sparingly
from choir_agent.prompt.assemble import Prompt
from choir_common.wire.config import ModelConfig


class _Client(Protocol):
    async def complete(self, body: bytes, timeout_s: float) -> bytes: ...

    async def close(self) -> None: ...


class _Sdk(Protocol):
    def SdkClient(self, endpoint: str, api_key: str | None) -> _Client: ...  # noqa: N802 - a class


class OpenAiModel:
    """The configured model; a changed endpoint or key gets a new client, the same one is kept."""

    def __init__(self) -> None:
        self._client: _Client | None = None
        self._made_for: tuple[str, str | None] | None = None

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Thought:
        """Post the prompt and read the answer; raises RateLimited or ModelFailed."""
        client = await self._client_for(settings.endpoint, api_key)
        body = render_request(settings, prompt)
        timeout_s = settings.timeout_ms / 1000
        began = time.perf_counter()
        try:
            # the SDK's timeout is per read; a trickling answer must end as well
            async with asyncio.timeout(timeout_s):
                answer = await client.complete(body, timeout_s)
        except TimeoutError as error:
            raise ModelFailed(f"the provider did not answer within {timeout_s:g} s") from error
        return read_response(answer, settings.model, (time.perf_counter() - began) * 1000)

    async def close(self) -> None:
        """Close the connections to the provider."""
        if self._client is not None:
            await self._client.close()

    async def _client_for(self, endpoint: str, api_key: str | None) -> _Client:
        wanted = (endpoint, api_key)
        if self._client is None or self._made_for != wanted:
            if self._client is not None:
                await self._client.close()
            self._client = await asyncio.to_thread(_make_client, endpoint, api_key)
            self._made_for = wanted
        return self._client


def _make_client(endpoint: str, api_key: str | None) -> _Client:
    # the one lazy import of the agent: see models/openai_sdk.py
    sdk = cast(_Sdk, import_sparingly("choir_agent.models.openai_sdk"))
    return sdk.SdkClient(endpoint, api_key)
