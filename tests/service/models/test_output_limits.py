"""Each adapter sends the limit that money was reserved for, and none is called without one."""

from dataclasses import replace

import orjson
import pytest

from choir_models.completion_limits import with_limit
from choir_models.model import Completion, ModelFailed, Prompt
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import Answer, FakeProvider, Usage
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.provider_matrix import every_provider

LIMITED = Prompt(
    (orjson.dumps({"role": "user", "content": "How is the weather?"}),), is_limited=True
)
HOSTED = sorted(name for name, kind in every_provider().items() if kind.limit_error)
FILTERING = sorted(name for name, kind in every_provider().items() if kind.filters_content)
OWN_LIMITS = {
    "openai": {"max_tokens": 90_000},
    "openai-responses": {"max_output_tokens": 90_000},
    "anthropic": {"max_tokens": 90_000},
    "gemini": {"generationConfig": {"maxOutputTokens": 90_000, "topK": 4}},
    "ollama": {"options": {"num_predict": -1, "seed": 4}},
}


async def ask(caller: Caller, provider: FakeProvider, tokens: int, **changes: object) -> Completion:
    settings = with_limit(provider.settings(**changes), tokens)
    return await caller.call(settings, provider.key, LIMITED)


@pytest.mark.parametrize("name", every_provider())
async def test_each_adapter_sends_the_limit_in_its_own_parameter(caller: Caller, name: str) -> None:
    async with run_provider(every_provider()[name]()) as provider:
        await ask(caller, provider, 1_234)
        assert provider.limits_of(provider.requests[-1]) == [1_234]
        # also against a limit of the request template, which overrides other settings
        own = {"extra_body": OWN_LIMITS[provider.api]}
        await ask(caller, provider, 1_234, request=own, max_completion_tokens=80_000)
        assert provider.limits_of(provider.requests[-1]) == [1_234]


@pytest.mark.parametrize("name", HOSTED)
async def test_a_limit_above_the_models_own_is_lowered_and_remembered(
    caller: Caller, name: str
) -> None:
    async with run_provider(every_provider()[name]()) as provider:
        provider.longest_output = 8_192
        for requests in (2, 3):
            assert (await ask(caller, provider, 32_000)).text == "All is well."
            assert len(provider.requests) == requests
            assert provider.limits_of(provider.requests[-1]) == [8_192]


async def test_a_model_that_refuses_every_limit_is_not_called_without_one(caller: Caller) -> None:
    names = ("max_completion_tokens", "max_tokens")
    refused = {name: f"Unsupported parameter: '{name}' is not supported." for name in names}
    async with run_provider(OpenAi(refused=refused)) as provider:
        with pytest.raises(ModelFailed, match="a budget in money cannot be kept"):
            await ask(caller, provider, 4_000)
        assert not provider.answers
        # without a budget the limit is only a wish
        settings = with_limit(provider.settings(), 4_000)
        answered = await caller.call(settings, provider.key, replace(LIMITED, is_limited=False))
        assert answered.text == "All is well."


@pytest.mark.parametrize("name", FILTERING)
async def test_a_filtered_answer_keeps_the_counts_that_are_billed(
    caller: Caller, name: str
) -> None:
    usage = Usage(prompt_tokens=700, completion_tokens=30)
    async with run_provider(every_provider()[name]()) as provider:
        provider.script(Answer("It", usage=usage, is_filtered=True))
        with pytest.raises(ModelFailed) as failed:
            await ask(caller, provider, 4_000)
    spent = failed.value.spent
    assert failed.value.cause == "filter" and spent is not None
    assert (spent.prompt_tokens, spent.completion_tokens) == (700, 30)


async def test_the_parts_of_a_continued_output_have_one_limit_together(caller: Caller) -> None:
    usage = Usage(prompt_tokens=700, completion_tokens=300, reasoning_tokens=100)
    async with run_provider(AnthropicProvider()) as provider:
        provider.stop_reason = "pause_turn"
        provider.script(Answer("It", usage=usage))
        assert (await ask(caller, provider, 4_000)).completion_tokens == 350
        assert [provider.limits_of(sent) for sent in provider.requests] == [[4_000], [3_700]]
    async with run_provider(Gemini()) as gemini:
        gemini.continuations = 2
        gemini.default = Answer("It", usage=usage)
        assert (await ask(caller, gemini, 500)).completion_tokens == 900
        assert [gemini.limits_of(sent) for sent in gemini.requests] == [[500], [200], [1]]
