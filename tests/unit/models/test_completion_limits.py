"""One place decides the longest output of a request, and reads what a provider says about it."""

from typing import Any

import orjson
import pytest

from choir_common.wire.config import ModelConfig
from choir_models.completion_limits import (
    DEFAULT_LIMIT,
    LEAST_LIMIT,
    least_limit,
    limit_names,
    request_limit,
    with_limit,
)
from choir_models.model import Prompt
from choir_models.openai.codec import render_request
from choir_models.refused_parameters import allowed_limit, fitting_limit

PROMPT = Prompt((b'{"role":"user","content":"x"}',))


def a_model(**fields: Any) -> ModelConfig:
    return ModelConfig.model_validate({"model": "m", "endpoint": "https://x/v1", **fields})


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({}, DEFAULT_LIMIT),
        ({"max_completion_tokens": 900}, 900),
        ({"thinking_budget": 5_000}, DEFAULT_LIMIT + 5_000),
        ({"request": {"extra_body": {"max_tokens": 700}}, "max_completion_tokens": 900}, 700),
        ({"request": {"extra_body": {"max_tokens": "many"}}}, DEFAULT_LIMIT),
        ({"api": "ollama", "request": {"extra_body": {"options": {"num_predict": 50}}}}, 50),
        ({"api": "ollama", "request": {"extra_body": {"options": {"num_predict": -1}}}}, 32_000),
        ({"api": "gemini", "request": {"extra_body": {"generationConfig": 3}}}, DEFAULT_LIMIT),
        ({"context_window": 20_000}, 19_000),
        ({"context_window": 2_000}, 1_000),
    ],
)
def test_the_longest_output_is_the_configured_one_or_what_the_window_leaves(
    fields: dict[str, Any], limit: int
) -> None:
    assert request_limit(a_model(**fields), prompt_tokens=1_000) == limit


def test_thoughts_of_a_budget_come_in_addition_to_the_shortest_answer() -> None:
    assert least_limit(a_model()) == LEAST_LIMIT
    assert least_limit(a_model(thinking_budget=5_000)) == LEAST_LIMIT + 5_000
    own = {"extra_body": {"thinking": {"type": "enabled", "budget_tokens": 4_000}}}
    assert least_limit(a_model(api="anthropic", request=own), 10) == 4_010


def test_a_limit_replaces_that_of_the_template_and_leaves_its_other_fields() -> None:
    body = {"generationConfig": {"maxOutputTokens": 9, "topK": 4}, "safetySettings": []}
    limited = with_limit(a_model(api="gemini", request={"extra_body": body}), 50)
    changed = {"generationConfig": {"maxOutputTokens": 50, "topK": 4}, "safetySettings": []}
    assert (limited.request.extra_body, limited.max_completion_tokens) == (changed, 50)


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("https://api.openai.com/v1", "max_completion_tokens"),
        ("https://api.deepseek.com", "max_tokens"),
        ("https://api.mistral.ai/v1", "max_tokens"),
    ],
)
def test_a_provider_that_knows_only_the_older_name_gets_it(endpoint: str, name: str) -> None:
    limited = with_limit(a_model(endpoint=endpoint), 50)
    body = orjson.loads(render_request(limited, PROMPT))
    assert body.keys() & {"max_completion_tokens", "max_tokens"} == {name}
    assert body[name] == 50 and limit_names(limited)[0] == name


@pytest.mark.parametrize(
    ("refusal", "allowed"),
    [
        ("max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens", 8_192),
        ("max_tokens is too large: 32000. This model supports at most 16,384 tokens", 16_384),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
        ("maxOutputTokens is 32000, the range is from 1 (inclusive) to 8193 (exclusive)", 8_192),
        ("max_tokens is too large", 16_000),
        # about something else
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", None),
        ("`max_tokens` must be greater than `thinking.budget_tokens`", None),
        ("temperature: 3 is above the maximum 2", None),
    ],
)
def test_the_limit_that_a_model_allows_is_read_from_its_error(
    refusal: str, allowed: int | None
) -> None:
    assert allowed_limit(refusal, 32_000) == allowed


def test_a_prompt_that_leaves_no_room_for_the_limit_gets_half_of_it_down_to_a_minimum() -> None:
    text = "However, you requested 33000 tokens (1000 in the messages, 32000 in the completion)."
    assert fitting_limit(text, 32_000) == 16_000
    assert fitting_limit(text, LEAST_LIMIT) is None
    assert fitting_limit("prompt is too long: 210000 tokens > 200000 maximum", 32_000) is None
