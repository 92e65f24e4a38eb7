"""What the Responses codec makes of histories, responses and events."""

from typing import Any

import orjson
import pytest

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.model import Completion, ModelFailed, Prompt
from choir_models.openai_responses.request_codec import render_request
from choir_models.openai_responses.response_codec import StreamedResponse, read_response

SETTINGS = ModelConfig(api="openai-responses", model="gpt-6", temperature=None)
THOUGHT: JsonObject = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [],
    "encrypted_content": "b64",
}
MESSAGE: JsonObject = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi."}],
}


def body(*messages: JsonObject, **changes: Any) -> Any:
    prompt = Prompt(tuple(map(orjson.dumps, messages)))
    return orjson.loads(render_request(SETTINGS, prompt, **changes))


def read(*items: JsonObject, **fields: Any) -> Completion:
    response = {"status": "completed", "output": items, **fields}
    return read_response(orjson.dumps(response), "asked", 1.0)


def test_later_remarks_are_the_developers() -> None:
    rendered = body(
        {"role": "system", "content": "One."},
        {"role": "system", "content": "Two."},
        {"role": "user", "content": "hi"},
        {"role": "system", "content": "Running core jobs: none"},
    )
    assert rendered["instructions"] == "One.\n\nTwo."
    assert [item["role"] for item in rendered["input"]] == ["user", "developer"]


def test_a_prompt_of_instructions_only_has_an_input() -> None:
    rendered = body({"role": "system", "content": "One."})
    assert rendered["input"][0]["content"] == [{"type": "input_text", "text": "One."}]


def test_a_parameter_that_the_model_refused_is_omitted() -> None:
    settings = SETTINGS.model_copy(update={"temperature": 0.5})
    prompt = Prompt((orjson.dumps({"role": "user", "content": "hi"}),))
    assert orjson.loads(render_request(settings, prompt))["temperature"] == 0.5
    without = prompt.omitting(frozenset({"temperature"}))
    assert "temperature" not in orjson.loads(render_request(settings, without))


def test_an_output_without_thoughts_is_not_stored_twice() -> None:
    call: JsonObject = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
    completion = read(MESSAGE, call)
    assert completion.fields == {} and completion.finish_reason == "tool_calls"


def test_thoughts_are_stored_only_if_they_can_be_sent_back() -> None:
    stored = read(THOUGHT, MESSAGE).fields
    assert stored == {"openai-responses": {"content": [THOUGHT, MESSAGE]}}
    assert read(MESSAGE, THOUGHT).fields == {}
    assert read({**THOUGHT, "encrypted_content": None}, MESSAGE).fields == {}
    assert read(THOUGHT, MESSAGE, status="incomplete").fields == {}


def test_arguments_that_were_cut_off_are_passed_on_for_the_arbiter() -> None:
    call: JsonObject = {"type": "function_call", "call_id": "c", "name": "t", "arguments": '{"a'}
    completion = read(call, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    assert completion.calls[0].arguments == '{"a' and completion.finish_reason == "length"


def test_a_stream_without_its_output_at_the_end_has_the_items_before() -> None:
    stream = StreamedResponse()
    events: list[Any] = [
        {"type": "response.created", "response": {}},
        {"type": "response.output_text.delta", "delta": "Hi."},
        {"type": "response.output_item.done", "item": MESSAGE},
        {"type": "response.completed", "response": {"status": "completed", "output": []}},
    ]
    heard = [stream.add(orjson.dumps(event).decode()) for event in events]
    assert heard == ["", "Hi.", "", ""] and stream.is_complete
    assert stream.add("[DONE]") == ""
    assert read_response(stream.body(), "asked", 1.0).text == "Hi."


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "It broke."},
        {"type": "error", "error": {"code": "server_error", "message": "It broke."}},
        {
            "type": "response.failed",
            "response": {"status": "failed", "error": {"message": "It broke."}},
        },
    ],
)
def test_an_error_in_a_stream_is_raised(event: JsonObject) -> None:
    stream = StreamedResponse()
    stream.add(orjson.dumps(event).decode())
    assert stream.is_complete
    with pytest.raises(ModelFailed, match=r"It broke\."):
        read_response(stream.body(), "asked", 1.0)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"{}"])
def test_a_body_in_another_format_is_reported(content: bytes) -> None:
    with pytest.raises(ModelFailed) as failure:
        read_response(content, "asked", 1.0)
    assert failure.value.cause == "format"
