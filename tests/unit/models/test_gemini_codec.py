"""What the Gemini codec makes of histories and of chunks."""

from typing import Any

import orjson
import pytest

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.gemini.request_codec import CONTINUED, render_request
from choir_models.gemini.response_codec import GeminiResponse
from choir_models.model import (
    Completion,
    ModelFailed,
    ModelRequestRejected,
    NoModelResponse,
    Prompt,
)
from choir_models.output_limits import MAX_CALLS

SETTINGS = ModelConfig(api="gemini", model="gemini-3-pro", temperature=None)


def contents(*messages: JsonObject) -> Any:
    return render_request(SETTINGS, Prompt(tuple(map(orjson.dumps, messages))))["contents"]


def read(*chunks: object) -> tuple[Completion, list[str]]:
    response = GeminiResponse()
    heard = [response.add(orjson.dumps(chunk)) for chunk in chunks]
    return response.completion("asked", 1.0), heard


def chunk(*parts: object, finish: str = "", **fields: object) -> JsonObject:
    candidate: JsonObject = {"content": {"role": "model", "parts": [*parts]}, **fields}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def test_neighbours_of_one_role_become_one_content() -> None:
    rendered = contents(
        {"role": "assistant", "content": "Hello."},
        {"role": "assistant", "content": "Still there?"},
        {"role": "user", "content": "yes"},
        {"role": "system", "content": "Running core jobs: none"},
    )
    assert rendered == [
        {"role": "user", "parts": [{"text": CONTINUED}]},
        {"role": "model", "parts": [{"text": "Hello."}, {"text": "Still there?"}]},
        {
            "role": "user",
            "parts": [{"text": "yes"}, {"text": "[Choir] Running core jobs: none"}],
        },
    ]


def test_a_prompt_of_instructions_only_has_a_content() -> None:
    body = render_request(SETTINGS, Prompt((orjson.dumps({"role": "system", "content": "x"}),)))
    assert body["systemInstruction"] == {"parts": [{"text": "x"}]}
    assert body["contents"] == [{"role": "user", "parts": [{"text": CONTINUED}]}]


@pytest.mark.parametrize(
    ("content", "response"),
    [
        ('{"status":"success"}', {"status": "success"}),
        ("[1]", {"output": "[1]"}),
        ("plain", {"output": "plain"}),
        (
            [{"type": "text", "text": '{"a":1}'}, {"type": "text", "text": "left out"}],
            {"a": 1, "remarks": ["left out"]},
        ),
    ],
)
def test_a_result_is_an_object(content: Any, response: JsonObject) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "c", "content": content}
    rendered = contents(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        result,
    )
    assert rendered[-1]["parts"] == [
        {"functionResponse": {"id": "c", "name": "look", "response": response}}
    ]


def test_parts_that_do_not_fit_the_calls_are_not_sent_back() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
    own = {"content": [{"text": "no call", "thoughtSignature": "s"}]}
    message = {"role": "assistant", "content": None, "tool_calls": [call], "gemini": own}
    rendered = contents({"role": "user", "content": "x"}, message)
    assert rendered[1]["parts"][0]["functionCall"] == {"id": "c", "name": "look", "args": {"a": 1}}


def test_pieces_of_a_text_become_one_part_and_signed_parts_stay_alone() -> None:
    completion, heard = read(
        chunk({"text": "I think", "thought": True}),
        chunk({"text": " more", "thought": True}),
        chunk({"text": "One "}),
        chunk({"text": "two"}),
        chunk({"text": "", "thoughtSignature": "s"}, finish="STOP"),
    )
    assert heard == ["", "", "One ", "two", ""] and completion.text == "One two"
    assert completion.fields == {
        "gemini": {
            "content": [
                {"text": "I think more", "thought": True},
                {"text": "One two"},
                {"text": "", "thoughtSignature": "s"},
            ]
        }
    }


def test_plain_texts_and_calls_are_not_stored_twice() -> None:
    call = {"functionCall": {"name": "look", "args": {"path": "a"}}}
    completion, _ = read(chunk({"text": "x"}, call, finish="STOP"))
    assert completion.fields == {} and completion.finish_reason == "tool_calls"
    assert orjson.loads(completion.calls[0].arguments) == {"path": "a"}


def test_too_many_calls_are_cut() -> None:
    calls = [{"functionCall": {"name": f"t{n}", "args": {}, "id": str(n)}} for n in range(150)]
    completion, _ = read(chunk(*calls, finish="STOP"))
    assert len(completion.calls) == MAX_CALLS and "50 more" in completion.text


@pytest.mark.parametrize(
    ("chunks", "kind", "cause"),
    [
        (["text"], ModelFailed, "format"),
        ([{}], ModelFailed, "format"),
        ([{"promptFeedback": {"blockReason": "SAFETY"}}], ModelFailed, "filter"),
        ([chunk({"text": "x"})], NoModelResponse, "connection"),
        ([chunk(finish="OTHER")], ModelFailed, "provider"),
        ([chunk(finish="RECITATION")], ModelFailed, "filter"),
        ([chunk(finish="MISSING_THOUGHT_SIGNATURE")], ModelRequestRejected, "request"),
    ],
)
def test_a_response_without_an_answer_has_its_cause(
    chunks: list[object], kind: type[ModelFailed], cause: str
) -> None:
    with pytest.raises(ModelFailed) as failure:
        read(*chunks)
    assert type(failure.value) is kind and failure.value.cause == cause
