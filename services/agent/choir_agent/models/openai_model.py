"""Think through an OpenAI-compatible endpoint (spec 21.1).

Called by `metered`; what comes next is `clients`. The SDK is imported at the first call, in a thread, so that
an idle agent stays small and a heartbeat is never late because of an import.
"""

import asyncio
import time
from typing import Protocol, cast

from choir_agent.models.clients import Client, Clients
from choir_agent.models.completion import read_response, render_request
from choir_agent.models.model import ModelFailed, Thought
from choir_agent.models.sdk_import import import_sparingly
from choir_agent.prompt.assemble import Prompt
from choir_common.wire.config import ModelConfig


class _Sdk(Protocol):
    def SdkClient(self, endpoint: str, api_key: str | None) -> Client: ...  # noqa: N802 - a class


class OpenAiModel:
    """The configured models, each behind the client of its endpoint and key."""

    def __init__(self) -> None:
        self._clients = Clients(_make_client)

    async def think(self, settings: ModelConfig, api_key: str | None, prompt: Prompt) -> Thought:
        """Post the prompt and read the answer; raises RateLimited or ModelFailed."""
        body = render_request(settings, prompt)
        timeout_s = settings.timeout_ms / 1000
        async with self._clients.borrow(settings.endpoint, api_key) as client:
            began = time.perf_counter()
            try:
                # the SDK's timeout is per read; a trickling answer must end as well
                async with asyncio.timeout(timeout_s):
                    headers = settings.request.extra_headers
                    answer = await client.complete(body, timeout_s, headers)
            except TimeoutError as error:
                said = f"the provider did not answer within {timeout_s:g} s"
                raise ModelFailed(said, cause="timeout") from error
            return read_response(answer, settings.model, (time.perf_counter() - began) * 1000)

    async def close(self) -> None:
        """Close the connections to the providers."""
        await self._clients.close()


async def _make_client(endpoint: str, api_key: str | None) -> Client:
    return await asyncio.to_thread(_build_client, endpoint, api_key)


def _build_client(endpoint: str, api_key: str | None) -> Client:
    # the one lazy import of the SDK: see models/openai_sdk.py
    sdk = cast(_Sdk, import_sparingly("choir_agent.models.openai_sdk"))
    return sdk.SdkClient(endpoint, api_key)
