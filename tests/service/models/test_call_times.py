"""A slow model that still writes is waited for; a provider that sends nothing, or never ends, is left."""

from collections.abc import AsyncIterator

import pytest

from choir_common.wire.config import ModelConfig
from choir_models import call_deadline
from choir_models.model import ModelFailed
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import Answer, FakeProvider, Hang, Step
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.history import prompt, user

SILENCE_MS = 400
WORDS = "one two three four five"


@pytest.fixture(params=[AnthropicProvider, FakeOllama, Gemini, OpenAi, OpenAiResponses])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[FakeProvider]:
    async with run_provider(request.param()) as provider:
        yield provider


def impatient(provider: FakeProvider) -> ModelConfig:
    """Return settings with a shorter limit than config.json allows."""
    settings = provider.settings(context_window=8_192)
    return settings.model_copy(update={"timeout_ms": SILENCE_MS})


async def test_a_slow_answer_that_goes_on_is_waited_for(
    caller: Caller, provider: FakeProvider
) -> None:
    # two parts of a whole response, or eight and more of a stream
    provider.script(Answer(WORDS, pause_s=0.25 if not caller.is_heard else 0.1))
    settings = impatient(provider)
    completion = await caller.call(settings, provider.key, prompt(user("hi")))
    assert completion.text == WORDS and completion.duration_ms > SILENCE_MS


@pytest.mark.parametrize("step", [Hang(), Answer(WORDS, stall_after=1)], ids=["hangs", "stalls"])
async def test_a_provider_that_sends_nothing_is_left(
    caller: Caller, provider: FakeProvider, step: Step
) -> None:
    provider.script(step)
    with pytest.raises(ModelFailed, match="sent nothing for 0.4 s") as failure:
        await caller.call(impatient(provider), provider.key, prompt(user("hi")))
    assert failure.value.cause == "timeout"
    await provider.client_left.wait()


async def test_an_answer_that_never_ends_is_left(
    caller: Caller, provider: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_deadline, "MAX_CALL_S", 0.5)
    provider.script(Answer("word " * 1_000, pause_s=0.3))
    with pytest.raises(ModelFailed, match=r"not complete after 0\.5 s") as failure:
        await caller.call(impatient(provider), provider.key, prompt(user("hi")))
    assert failure.value.cause == "timeout"
    await provider.client_left.wait()
