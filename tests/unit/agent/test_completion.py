"""Requests to and responses from providers, as they really come."""

import json
from dataclasses import replace
from decimal import Decimal

import orjson
import pytest

from choir_common.wire.config import ModelConfig
from choir_models.model import Completion, ModelFailed, Prompt
from choir_models.openai.codec import read_response, render_request


def test_a_request_joins_what_is_rendered_and_leaves_out_what_is_not_set() -> None:
    settings = ModelConfig(model="m", endpoint="http://x", temperature=None)
    prompt = Prompt((b'{"role":"user","content":"hi"}',))
    body = orjson.loads(render_request(settings, prompt))
    assert body == {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    full = settings.model_copy(update={"temperature": 0.5, "reasoning_effort": "low"})
    body = orjson.loads(render_request(full, replace(prompt, tools=b'[{"type":"function"}]')))
    assert (body["temperature"], body["reasoning_effort"]) == (0.5, "low")
    assert body["tools"] == [{"type": "function"}]
    assert "response_format" not in body
    body = orjson.loads(render_request(full, replace(prompt, json_only=True)))
    assert body["response_format"] == {"type": "json_object"}


def respond(message: object, finish: str | None = "stop") -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return orjson.dumps({"choices": [choice], "new_field": 1})


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": "hi"}, "hi"),
        ({"content": None}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": None, "refusal": "I must not"}, "I must not"),
    ],
)
def test_content_is_read_in_every_form(message: object, text: str) -> None:
    assert read_response(respond(message), "m", 1.0).text == text


def test_arguments_that_come_as_an_object_are_read_as_text() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    thought = read_response(respond({"content": None, "tool_calls": [call]}), "m", 1.0)
    assert thought.calls[0].arguments == '{"a":1}'


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{}",
        b'{"choices": []}',
        b"[1]",
        b'{"choices": [{"message": null}]}',
        respond({"content": "x"}, "content_filter"),
    ],
)
def test_what_is_no_answer_is_an_error_that_can_be_shown(body: bytes) -> None:
    with pytest.raises(ModelFailed):
        read_response(body, "m", 1.0)


def test_unknown_fields_of_a_message_and_of_its_calls_are_kept_as_they_came() -> None:
    call = {
        "id": "theirs",
        "index": 0,
        "type": "function",
        "extra_content": {"google": {"thought_signature": "x"}},
        "function": {"name": "f", "arguments": "{}", "strict": True},
    }
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [call],
        "reasoning_content": "hm",
    }
    thought = read_response(respond(message), "m", 1.0)
    assert thought.fields == {"reasoning_content": "hm"}
    signed = {"google": {"thought_signature": "x"}}
    beside = {"id": "theirs", "extra_content": signed, "function": {"strict": True}}
    assert thought.calls[0].fields == beside


def test_fields_without_content_and_audio_are_left_out() -> None:
    message = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "audio": {"id": "a"},
        "reasoning": None,
        "reasoning_details": [],
    }
    assert read_response(respond(message), "m", 1.0).fields == {}
    cited = {"annotations": [{"type": "url_citation"}]}
    assert read_response(respond(message | cited), "m", 1.0).fields == cited


def test_content_in_parts_that_are_not_all_text_goes_back_in_parts() -> None:
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "hi"}]
    thought = read_response(respond({"content": parts}), "m", 1.0)
    assert (thought.text, thought.fields) == ("hi", {"content": parts})


def test_fields_that_no_event_can_carry_are_dropped_whole() -> None:
    for huge in ("x" * 600_000, 10**30, orjson.loads(b"[" * 120 + b"]" * 120)):
        body = json.dumps({"choices": [{"message": {"content": "hi", "reasoning": huge}}]}).encode()
        assert read_response(body, "m", 1.0).fields == {}


def usage_of(usage: object) -> Completion:
    body = orjson.loads(respond({"content": "hi"})) | {"usage": usage}
    return read_response(orjson.dumps(body), "m", 1.0)


def test_every_kind_of_token_is_read() -> None:
    completion = usage_of(
        {
            "prompt_tokens": 100,
            "completion_tokens": 50,
            "prompt_tokens_details": {
                "cached_tokens": 60,
                "cache_write_tokens": 20,
                "audio_tokens": 7,
                "image_tokens": 5,
            },
            "completion_tokens_details": {"reasoning_tokens": 30, "audio_tokens": 4},
        }
    )
    assert (completion.cached_tokens, completion.cache_write_tokens) == (60, 20)
    assert (completion.audio_input_tokens, completion.image_tokens) == (7, 5)
    assert (completion.reasoning_tokens, completion.audio_output_tokens) == (30, 4)
    assert completion.billed_usd is None
    # DeepSeek counts its cache under another name
    assert usage_of({"prompt_tokens": 9, "prompt_cache_hit_tokens": 8}).cached_tokens == 8


@pytest.mark.parametrize(
    ("usage", "billed"),
    [
        ({"cost": 0.00123}, "0.00123"),
        ({"cost": 0.1}, "0.1"),
        ({"cost": 0}, "0"),
        ({"cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.5}}, "1.55"),
        ({"cost": 0.05, "is_byok": False, "cost_details": {"upstream_inference_cost": 1}}, "0.05"),
        ({"cost": 0.05, "is_byok": True}, None),
        ({"cost": "0.1"}, None),
        ({"cost": True}, None),
        ({"cost": -1}, None),
        ({"cost": 1e300}, None),
        ({"cost": {"total": 1}}, None),
        (None, None),
    ],
)
def test_what_the_provider_bills_is_read_exactly(usage: object, billed: str | None) -> None:
    assert usage_of(usage).billed_usd == (None if billed is None else Decimal(billed))
