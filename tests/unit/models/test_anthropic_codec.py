"""Requests of the Messages API, checked by the fake's rules, and its responses."""

import base64

import orjson
import pytest
from pydantic import JsonValue, ValidationError

from choir_common.errors import RateLimited
from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_common.wire.model_config import RequestTemplate
from choir_models.anthropic.request import render_request, request_headers
from choir_models.anthropic.response import ReceivedMessage, read_message_body, read_response
from choir_models.anthropic.stream import StreamedMessage
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ContextOverflow,
    ModelFailed,
    NoModelResponse,
    Prompt,
)
from choir_models.output_limits import CUT
from choir_testing.providers.anthropic_rules import check_request

PIXEL = base64.b64encode(b"pixels").decode()
SETTINGS = ModelConfig(api="anthropic", model="claude", temperature=0.7)
TOOL: JsonObject = {"name": "f", "description": "Does.", "parameters": {"properties": {}}}
TOOLS = orjson.dumps([{"type": "function", "function": TOOL}])


def system(text: str) -> JsonObject:
    return {"role": "system", "content": text}


def user(content: JsonValue) -> JsonObject:
    return {"role": "user", "content": content}


def assistant(text: str | None, *ids: str, **fields: JsonValue) -> JsonObject:
    message: JsonObject = {"role": "assistant", "content": text}
    if ids:
        function = {"name": "f", "arguments": '{"a":1}'}
        message["tool_calls"] = [{"id": i, "type": "function", "function": function} for i in ids]
    return {**message, **fields}


def tool(call_id: str, content: JsonValue = "fine") -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def request(*messages: JsonObject, settings: ModelConfig = SETTINGS) -> JsonObject:
    """Return the request for a conversation with tools; it obeys the rules of the API."""
    prompt = Prompt(tuple(map(orjson.dumps, messages)), TOOLS)
    body: JsonObject = orjson.loads(orjson.dumps(render_request(settings, prompt)))
    check_request(body)
    return body


def contents(body: JsonObject) -> list[JsonValue]:
    messages = body["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if isinstance(message, dict)]


def test_a_request_has_the_system_prompt_and_the_tools_apart() -> None:
    body = request(system("Be brief."), system("No summary."), user("hi"))
    texts = [{"type": "text", "text": text} for text in ("Be brief.", "No summary.")]
    assert body["system"] == texts
    assert body["messages"] == [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]
    schema = {"type": "object", "properties": {}}
    assert body["tools"] == [{"name": "f", "description": "Does.", "input_schema": schema}]
    assert body["max_tokens"] == 32_000
    assert "temperature" not in body and "thinking" not in body


def test_alternatives_at_the_top_of_a_schema_are_left_out() -> None:
    function = {"name": "f", "parameters": {"type": "object", "anyOf": [{"required": ["a"]}]}}
    tools = orjson.dumps([{"type": "function", "function": function}])
    body = render_request(SETTINGS, Prompt((orjson.dumps(user("hi")),), tools))
    assert body["tools"] == [{"name": "f", "input_schema": {"type": "object"}}]


def test_a_message_behind_calls_has_results_only_and_remarks_are_in_the_last_one() -> None:
    body = request(
        *(user("go"), assistant(None, "c1", "c2"), tool("c1"), tool("c2")),
        *(system("Jobs: none."), system("[Choir] No skill.")),
    )
    (_, uses, results) = contents(body)
    assert uses == [
        {"type": "tool_use", "id": i, "name": "f", "input": {"a": 1}} for i in ("c1", "c2")
    ]
    assert results == [
        {"type": "tool_result", "tool_use_id": "c1", "content": "fine"},
        {
            "type": "tool_result",
            "tool_use_id": "c2",
            "content": [
                {"type": "text", "text": "fine"},
                {"type": "text", "text": "[Choir] Jobs: none."},
                {"type": "text", "text": "[Choir] No skill."},
            ],
        },
    ]


def test_a_remark_behind_a_users_message_is_a_text_of_its_own() -> None:
    (content,) = contents(request(user("go"), system("Jobs: none.")))
    assert content == [
        {"type": "text", "text": "go"},
        {"type": "text", "text": "[Choir] Jobs: none."},
    ]


@pytest.mark.parametrize(
    "messages",
    [
        (user("a"), user("b"), assistant("c"), assistant("d"), user("e")),
        (assistant("first"), user("a")),
        (user("a"), assistant("last")),
        (system("only"),),
        (user(""), user("  "), assistant(""), user("a")),
        (user("a"), assistant("", "c1"), tool("c1", ""), assistant("b"), user("c")),
    ],
)
def test_roles_alternate_whatever_the_history_is(messages: tuple[JsonObject, ...]) -> None:
    request(*messages)


def test_text_and_thoughts_of_two_assistant_messages_stay_apart() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    native = {"content": [thought, {"type": "text", "text": "So."}]}
    body = request(user("a"), assistant("A notice."), assistant("", anthropic=native), user("b"))
    assert contents(body)[2] == [{"type": "text", "text": "[Choir] Continue."}]


@pytest.mark.parametrize("arguments", ["", "[1]", "not json", "null"])
def test_arguments_that_are_no_object_become_an_empty_one(arguments: str) -> None:
    message = assistant(None, "c1")
    message["tool_calls"][0]["function"]["arguments"] = arguments  # type: ignore[index, call-overload]
    uses = contents(request(user("a"), message, tool("c1")))[1]
    assert isinstance(uses, list) and isinstance(uses[0], dict) and uses[0]["input"] == {}


def test_pictures_and_documents_are_sent_natively_also_in_results() -> None:
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"},
        },
        {
            "type": "file",
            "file": {"filename": "a.md", "file_data": f"data:text/markdown;base64,{PIXEL}"},
        },
    ]
    pdf = {"type": "base64", "media_type": "application/pdf", "data": PIXEL}
    blocks = [
        {"type": "text", "text": "see"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": PIXEL},
        },
        {"type": "document", "source": pdf, "title": "a.pdf"},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "pixels"},
            "title": "a.md",
        },
    ]
    body = request(user(parts), assistant(None, "c1"), tool("c1", parts))
    sent = contents(body)
    assert sent[0] == blocks
    assert sent[2] == [{"type": "tool_result", "tool_use_id": "c1", "content": blocks}]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": f"data:image/bmp;base64,{PIXEL}"}},
        {"type": "file", "file": {"file_data": f"data:application/zip;base64,{PIXEL}"}},
        {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "wav"}},
    ],
)
def test_what_cannot_be_sent_is_named(part: JsonObject) -> None:
    (blocks,) = contents(request(user([part])))
    assert isinstance(blocks, list) and isinstance(blocks[0], dict)
    assert str(blocks[0]["text"]).endswith("is not shown here.")


NATIVE: list[JsonValue] = [
    {"type": "thinking", "thinking": "", "signature": "s1"},
    {"type": "text", "text": "I look."},
    {"type": "redacted_thinking", "data": "xyz"},
    {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}},
]


def test_thoughts_come_back_verbatim_and_inputs_are_stored_once() -> None:
    answer = completion(content=NATIVE, stop_reason="tool_use")
    assert (answer.text, answer.finish_reason) == ("I look.", "tool_calls")
    (call,) = answer.calls
    assert (call.name, call.arguments, call.fields) == ("f", '{"a":1}', {"id": "toolu_1"})
    stored = answer.fields["anthropic"]
    assert isinstance(stored, dict)
    assert stored["content"] == [*NATIVE[:3], {"type": "tool_use", "id": "toolu_1"}]
    body = request(user("a"), assistant("I look.", "toolu_1", **answer.fields), tool("toolu_1"))
    assert contents(body)[1] == NATIVE


def test_native_blocks_with_other_calls_are_not_sent() -> None:
    native: JsonValue = {"content": NATIVE}
    ids = ("call_8", "call_9")
    message = assistant("I look.", *ids, anthropic=native)
    body = request(user("a"), message, *map(tool, ids))
    uses = [{"type": "tool_use", "id": i, "name": "f", "input": {"a": 1}} for i in ids]
    assert contents(body)[1] == [{"type": "text", "text": "I look."}, *uses]


def test_thoughts_that_were_cut_off_are_not_stored() -> None:
    answer = completion(content=[NATIVE[0]], stop_reason="max_tokens")
    assert (answer.text, answer.fields) == (CUT, {})


def test_an_answer_of_text_and_calls_stores_nothing_else() -> None:
    assert completion(content=[NATIVE[1], NATIVE[3]]).fields == {}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        (
            {"reasoning_effort": "high"},
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}},
        ),
        ({"thinking_budget": 0}, {"thinking": {"type": "disabled"}}),
        (
            {"thinking_budget": 2_000, "max_completion_tokens": 5_000},
            {"thinking": {"type": "enabled", "budget_tokens": 2_000}, "max_tokens": 5_000},
        ),
        ({"thinking_budget": 2_000}, {"max_tokens": 34_000}),
    ],
)
def test_thinking_is_an_effort_or_a_budget(changes: JsonObject, fields: JsonObject) -> None:
    settings = ModelConfig.model_validate({**SETTINGS.model_dump(), **changes})
    body = request(user("a"), settings=settings)
    assert fields.items() <= body.items()
    assert bool(fields) or not {"thinking", "output_config"} & body.keys()


def test_a_budget_must_be_below_the_limit_of_the_output() -> None:
    with pytest.raises(ValidationError, match="thinking_budget"):
        ModelConfig(api="anthropic", model="m", thinking_budget=5_000, max_completion_tokens=5_000)


def test_without_the_thoughts_behind_open_calls_a_budget_is_not_sent() -> None:
    settings = SETTINGS.model_copy(update={"thinking_budget": 2_000})
    open_calls = (user("a"), assistant(None, "c1"), tool("c1"))
    assert "thinking" not in request(*open_calls, settings=settings)
    assert "thinking" in request(*open_calls, assistant("b"), user("c"), settings=settings)


def test_json_mode_is_an_instruction() -> None:
    prompt = Prompt((orjson.dumps(system("Sum up.")), orjson.dumps(user("a"))), json_only=True)
    body = render_request(SETTINGS, prompt)
    check_request(body)
    assert isinstance(body["system"], list) and "one JSON object" in str(body["system"][1])


def test_the_template_overrides_and_beta_headers_are_joined() -> None:
    template = RequestTemplate(
        extra_body={"thinking": {"type": "disabled"}}, extra_headers={"Anthropic-Beta": "one"}
    )
    settings = SETTINGS.model_copy(update={"reasoning_effort": "low", "request": template})
    assert request(user("a"), settings=settings)["thinking"] == {"type": "disabled"}
    headers = request_headers(settings, drops_unbound_thinking=True)
    assert headers == {"Anthropic-Beta": "one,thinking-binding-controls-2026-08-01"}


def completion(**fields: JsonValue) -> Completion:
    message = {"content": [], "stop_reason": "end_turn", "usage": {}, **fields}
    return read_response(ReceivedMessage.model_validate(message), "asked", 1.0)


def test_usage_counts_cached_and_written_tokens_as_part_of_the_prompt() -> None:
    answer = completion(
        usage={
            "input_tokens": 5,
            "cache_read_input_tokens": 70,
            "cache_creation_input_tokens": 25,
            "output_tokens": 40,
            "output_tokens_details": {"thinking_tokens": 30},
        }
    )
    assert (answer.prompt_tokens, answer.cached_tokens, answer.cache_write_tokens) == (100, 70, 25)
    assert (answer.completion_tokens, answer.reasoning_tokens) == (40, 30)


def test_text_behind_another_block_is_a_new_paragraph() -> None:
    def text(words: str) -> JsonObject:
        return {"type": "text", "text": words}

    thought: JsonObject = {"type": "thinking", "thinking": "", "signature": "s"}
    answer = completion(content=[thought, text("a"), text("b"), thought, text("c")])
    assert answer.text == "ab\n\nc"


def test_reasons_to_stop() -> None:
    assert completion(stop_reason="max_tokens").text == CUT
    assert completion(stop_reason="max_tokens").finish_reason == "length"
    refused = {"type": "refusal", "explanation": "It could harm."}
    with pytest.raises(ModelFailed, match="It could harm") as raised:
        completion(stop_reason="refusal", stop_details=refused)
    assert raised.value.cause == "filter"
    with pytest.raises(ContextOverflow):
        completion(stop_reason="model_context_window_exceeded")


@pytest.mark.parametrize("body", [b"", b"<html>", b"{}", b"[1]", b'{"content": 1}'])
def test_what_is_no_message_is_an_error_that_can_be_shown(body: bytes) -> None:
    with pytest.raises(ModelFailed):
        read_message_body(body)


def test_an_error_with_status_200_is_classified() -> None:
    error = {"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}
    with pytest.raises(RateLimited):
        read_message_body(orjson.dumps(error))


def events(*events: JsonObject) -> StreamedMessage:
    message = StreamedMessage(NO_LISTENER)
    for event in events:
        message.add(event)
    return message


def test_an_input_that_was_cut_in_the_stream_stays_as_it_is() -> None:
    use: JsonObject = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    delta: JsonObject = {"type": "input_json_delta", "partial_json": '{"a": "unfini'}
    message = events(
        {"type": "content_block_start", "index": 0, "content_block": use},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}},
        {"type": "a_new_event"},
        {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {}},
        {"type": "message_stop"},
    ).finish()
    assert read_response(message, "m", 1.0).calls[0].arguments == '{"a": "unfini'


def test_an_error_in_a_stream_is_classified_by_its_type() -> None:
    failure: JsonObject = {
        "type": "error",
        "error": {"type": "overloaded_error", "message": "Overloaded"},
    }
    with pytest.raises(NoModelResponse, match="Overloaded"):
        events({"type": "message_start", "message": {}}, failure)


def test_a_stream_without_its_end_is_no_answer() -> None:
    with pytest.raises(NoModelResponse, match="closed the connection"):
        events({"type": "message_start", "message": {}}).finish()
