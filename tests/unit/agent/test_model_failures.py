"""Messages for users about providers' errors."""

import json
from datetime import UTC, datetime

import orjson
import pytest

from choir_common.errors import ChoirError, RateLimited
from choir_models.model import ContextOverflow, ModelFailed
from choir_models.openai.codec import read_response
from choir_models.output_limits import CUT, MAX_CALLS
from choir_models.provider_errors import error_from_response, retry_after_s

NOW = datetime(2026, 11, 21, 8, 0, 0, tzinfo=UTC)


def failure(status: int, error: object) -> ChoirError:
    body = error.encode() if isinstance(error, str) else orjson.dumps({"error": error})
    return error_from_response(status, body, {}, NOW, "sk-configured")


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"Retry-After": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"Retry-After-Ms": "250", "Retry-After": "9"}, 0.25),
        ({"retry-after": "Sat, 21 Nov 2026 08:00:30 GMT"}, 30.0),
        ({"retry-after": "Sat, 21 Nov 2026 07:00:00 GMT"}, 0.0),
        ({"retry-after": "Saturday, 21-Nov-26 08:00:10 GMT"}, 10.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "x", "retry-after": "2"}, 2.0),
    ],
)
def test_the_wait_is_read_in_every_form(headers: dict[str, str], wait_s: float | None) -> None:
    assert retry_after_s(headers, NOW) == wait_s


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (
            400,
            {"code": "context_length_exceeded", "message": "This model's maximum context length…"},
        ),
        (400, {"message": "This endpoint's maximum context length is 8192 tokens. However, you…"}),
        (400, {"message": "prompt is too long: 210000 tokens > 200000 maximum"}),
        (400, {"message": "The input token count (1200000) exceeds the maximum number of tokens"}),
        (
            400,
            {"type": "exceed_context_size_error", "message": "the request exceeds the available…"},
        ),
        (400, {"message": "Requested tokens exceed context window of 2048"}),
        (400, {"message": "Provider error", "metadata": {"raw": "input is too long for model"}}),
        (413, "Request Entity Too Large"),
    ],
)
def test_a_prompt_that_is_too_long_is_recognised(status: int, error: object) -> None:
    assert isinstance(failure(status, error), ContextOverflow)


@pytest.mark.parametrize(
    ("status", "error", "word"),
    [
        (400, {"code": "content_filter", "message": "filtered"}, "content filter"),
        (400, {"message": "triggering Azure OpenAI's content management policy"}, "content filter"),
        (403, {"message": "Your input was flagged", "metadata": {"reasons": []}}, "content filter"),
        (401, {"message": "Incorrect API key provided: sk-abc"}, "refused the API key"),
        (402, {"message": "Insufficient credits"}, "no credit"),
        (429, {"code": "insufficient_quota", "message": "You exceeded…"}, "no credit"),
        (400, {"message": "Unknown parameter: 'x'"}, "400: Unknown parameter"),
        (404, {"message": "The model `m` does not exist"}, "404: The model"),
        (500, "<html>boom</html>", "answered 500"),
        (
            502,
            {"message": "bad", "metadata": {"provider_name": "Acme", "raw": "oops"}},
            "Acme | oops",
        ),
        (503, "", "answered 503"),
        (529, [1, 2], "answered 529"),
    ],
)
def test_other_failures_are_final_and_said(status: int, error: object, word: str) -> None:
    found = failure(status, error)
    assert isinstance(found, ModelFailed)
    assert not isinstance(found, ContextOverflow)
    assert word in found.message
    assert len(found.message) < 400


def test_a_rate_limit_is_one() -> None:
    found = error_from_response(429, b"slow down", {"retry-after": "3"}, NOW)
    assert isinstance(found, RateLimited)
    assert found.retry_after_s == 3.0


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_the_key_is_in_no_message_not_even_halved_by_a_cut(status: int) -> None:
    key = "sk-canary-0123456789abcdef"
    for filler in range(220, 300, 4):
        body = orjson.dumps({"error": {"message": "x" * filler + key}})
        message = error_from_response(status, body, {}, NOW, key).message
        assert "canary" not in message
        assert "sk-c" not in message


def response(**fields: object) -> bytes:
    message = {"content": None, **fields}
    finish = message.pop("finish_reason", "stop")
    return orjson.dumps({"choices": [{"message": message, "finish_reason": finish}]})


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "Rate limited upstream", "code": 429}}, RateLimited),
        ({"error": {"message": "maximum context length is 8192", "code": 400}}, ContextOverflow),
        ({"error": {"message": "Provider returned error", "code": 502}}, ModelFailed),
        ({"error": "something"}, ModelFailed),
        ({"error": {"code": "server_error"}, "choices": []}, ModelFailed),
        ({"choices": [{"message": {"content": ""}, "error": {"code": 504}}]}, ModelFailed),
        ({"choices": []}, ModelFailed),
        ({}, ModelFailed),
    ],
)
def test_an_error_with_status_200_is_one(body: object, kind: type[ChoirError]) -> None:
    with pytest.raises(kind):
        read_response(orjson.dumps(body), "m", 1.0)


def test_the_wait_openrouter_passes_on_is_used() -> None:
    error = {"code": 429, "message": "x", "metadata": {"headers": {"Retry-After": "4"}}}
    with pytest.raises(RateLimited) as limited:
        read_response(orjson.dumps({"error": error}), "m", 1.0)
    assert limited.value.retry_after_s == 4.0


def test_a_cut_answer_is_kept_and_marked() -> None:
    thought = read_response(response(content="half a sen", finish_reason="length"), "m", 1.0)
    assert thought.text == f"half a sen\n\n{CUT}"
    assert read_response(response(content="", finish_reason="length"), "m", 1.0).text == CUT


@pytest.mark.parametrize(
    "call",
    [
        {},
        None,
        7,
        "text",
        {"function": None},
        {"function": {}},
        {"function": {"name": None, "arguments": None}},
        {"function": {"name": 7, "arguments": 8}},
        {"id": None, "function": {"name": "f", "arguments": '{"a": '}},
    ],
)
def test_a_malformed_call_stays_a_call_for_the_arbiter_to_refuse(call: object) -> None:
    thought = read_response(response(tool_calls=[call]), "m", 1.0)
    assert len(thought.calls) == 1
    assert isinstance(thought.calls[0].name, str)
    assert isinstance(thought.calls[0].arguments, str)


def test_a_flood_of_calls_is_capped_and_the_model_is_told() -> None:
    call = {"function": {"name": "f", "arguments": "{}"}}
    thought = read_response(response(tool_calls=[call] * 5000), "m", 1.0)
    assert len(thought.calls) == MAX_CALLS
    assert "4900 more tool calls were dropped" in thought.text


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        (None, (0, 0, 0)),
        ({}, (0, 0, 0)),
        ([1], (0, 0, 0)),
        ({"prompt_tokens": None, "completion_tokens": "7"}, (0, 0, 0)),
        ({"prompt_tokens": -5, "completion_tokens": 10**30}, (0, 10_000_000, 0)),
        ({"prompt_tokens": 10.0, "completion_tokens": True}, (10, 0, 0)),
        (
            {
                "prompt_tokens": 10,
                "completion_tokens": 2,
                "prompt_tokens_details": {"cached_tokens": 8},
            },
            (10, 2, 8),
        ),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, (10, 0, 0)),
    ],
)
def test_usage_is_read_with_doubt(usage: object, counted: tuple[int, int, int]) -> None:
    # the standard library's, which writes numbers of any size
    body = json.dumps({"choices": [{"message": {"content": "x"}}], "usage": usage})
    thought = read_response(body.encode(), "m", 1.0)
    assert (thought.prompt_tokens, thought.completion_tokens, thought.cached_tokens) == counted
