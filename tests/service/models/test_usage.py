"""Each adapter reads every count that its provider documents, whole and streamed, and invents none."""

from dataclasses import asdict
from decimal import Decimal

import orjson
import pytest

from choir_models.model import Prompt
from choir_testing.providers.provider import Answer, Usage
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.provider_matrix import every_provider

PROMPT = Prompt((orjson.dumps({"role": "user", "content": "How is the weather?"}),))
USAGE = Usage(
    prompt_tokens=9_000,
    completion_tokens=700,
    cached_tokens=3_000,
    cache_write_tokens=2_000,
    cache_write_1h_tokens=500,
    reasoning_tokens=400,
    audio_input_tokens=70,
    image_tokens=60,
    audio_output_tokens=50,
    billed_usd=0.0123,
)
TOTALS = {"prompt_tokens", "completion_tokens"}
CACHED, REASONING = TOTALS | {"cached_tokens"}, {"reasoning_tokens"}
MEDIA = {"audio_input_tokens", "image_tokens", "audio_output_tokens"}
COMPLETIONS = CACHED | REASONING | MEDIA | {"cache_write_tokens"}
DOCUMENTED: dict[str, set[str]] = {
    "anthropic": CACHED | REASONING | {"cache_write_tokens", "cache_write_1h_tokens"},
    "gemini": CACHED | REASONING | MEDIA,
    "ollama": TOTALS,
    "llamacpp": CACHED,
    "lmstudio": TOTALS,
    "vllm": CACHED,
    "deepseek": CACHED | REASONING,
    "gemini-openai": COMPLETIONS,
    "openai": COMPLETIONS,
    "openrouter": COMPLETIONS | {"billed_usd"},
    # `cost` only from OpenRouter, whose API is the same
    "openai-responses": CACHED | REASONING | {"cache_write_tokens", "billed_usd"},
}
"""The counts in each provider's API reference."""


def test_every_provider_is_in_the_table() -> None:
    assert set(DOCUMENTED) == set(every_provider())


@pytest.mark.parametrize("name", DOCUMENTED)
async def test_the_documented_counts_are_read_and_no_other(caller: Caller, name: str) -> None:
    async with run_provider(every_provider()[name]()) as provider:
        provider.script(Answer("Dry.", usage=USAGE))
        completion = await caller.think(provider, PROMPT, provider.key)
    expected = {field: value for field, value in asdict(USAGE).items() if field in DOCUMENTED[name]}
    if "billed_usd" in expected:
        expected["billed_usd"] = Decimal("0.0123")
    read = {field: getattr(completion, field) for field in asdict(USAGE)}
    assert {field: value for field, value in read.items() if value} == expected
    assert completion.are_counted
