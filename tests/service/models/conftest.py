"""Models through their adapters, called with a listener and without."""

from collections.abc import AsyncIterator

import pytest

from choir_common.wire.config import ModelConfig
from choir_models.model import Completion, Prompt
from choir_models.registry import ModelRegistry
from choir_testing.providers.provider import KEY, FakeProvider
from tests.service.models.history import Recorder


class Caller:
    """The models under test."""

    def __init__(self, *, is_heard: bool) -> None:
        self.models = ModelRegistry()
        self.is_heard = is_heard
        """Whether calls have a listener, so that the response is streamed."""
        self.heard = Recorder()

    async def think(
        self, provider: FakeProvider, prompt: Prompt, key: str = KEY, **changes: object
    ) -> Completion:
        """Call a provider's model with changed settings."""
        return await self.call(provider.settings(**changes), key, prompt)

    async def call(self, settings: ModelConfig, key: str, prompt: Prompt) -> Completion:
        """Call a model."""
        if not self.is_heard:
            return await self.models.think(settings, key, prompt)
        return await self.models.think(settings, key, prompt, self.heard)


@pytest.fixture(params=["whole", "streamed"])
async def caller(request: pytest.FixtureRequest) -> AsyncIterator[Caller]:
    caller = Caller(is_heard=request.param == "streamed")
    yield caller
    await caller.models.close()
