"""A stream gives the same completion as a whole response, whatever the server's habits."""

import orjson
import pytest
from pydantic import JsonValue

from choir_local.rehearsal.answers import ScriptedAnswer
from choir_local.rehearsal.completion import make_reply, render_document, render_stream
from choir_local.rehearsal.score import ScriptedCall
from choir_models.model import Completion, ModelFailed
from choir_models.openai.codec import read_response
from choir_models.openai.stream import StreamedCompletion


def streamed(*deltas: JsonValue, finish: str | None = "stop", **head: JsonValue) -> Completion:
    """Return the completion of a stream with these deltas."""
    stream = StreamedCompletion()
    for delta in deltas:
        stream.add(orjson.dumps({"choices": [{"delta": delta}], **head}).decode())
    if finish is not None:
        stream.add(orjson.dumps({"choices": [{"delta": {}, "finish_reason": finish}]}).decode())
    assert stream.is_complete == (finish is not None)
    return read_response(stream.body(), "asked", 1.0)


def call(index: int | None, **fields: JsonValue) -> JsonValue:
    """Return a delta with one part of a tool call."""
    place: dict[str, JsonValue] = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, **fields}]}


def test_both_forms_of_an_answer_are_the_same_completion() -> None:
    calls = tuple(ScriptedCall(name=f"tool_{n}", arguments={"n": n}) for n in range(5))
    reply = make_reply(ScriptedAnswer("five at once", calls), "m", 400)
    stream, text = StreamedCompletion(), ""
    for event in render_stream(reply, include_usage=True):
        text += stream.add(event.decode().removeprefix("data: "))
    assert text == "five at once"
    whole = read_response(render_document(reply), "m", 1.0)
    assert read_response(stream.body(), "m", 1.0) == whole
    assert len(whole.calls) == 5
    assert whole.prompt_tokens > 0


def test_unknown_fields_are_joined_and_kept() -> None:
    first = {"type": "reasoning.text", "text": "let me ", "index": 0, "format": "x"}
    second = {"type": "reasoning.text", "text": "think", "index": 0, "signature": "s1gn"}
    done = streamed(
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
        {"reasoning_content": "m", "reasoning_details": [first]},
        {"reasoning_details": [second]},
        {"content": "yes", "extra_content": {"google": {"thought_signature": "abc"}}},
    )
    assert done.text == "yes"
    assert done.fields == {
        "reasoning_content": "hmm",
        "reasoning_details": [first | second | {"text": "let me think"}],
        "extra_content": {"google": {"thought_signature": "abc"}},
    }


def test_parts_of_content_are_kept_and_only_text_is_the_answer() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    done = streamed({"content": [thought]}, {"content": "yes"}, {"content": " indeed"})
    assert done.text == "yes indeed"
    assert done.fields["content"] == [
        thought,
        {"type": "text", "text": "yes"},
        {"type": "text", "text": " indeed"},
    ]


@pytest.mark.parametrize(
    "parts",
    [
        # by index, interleaved
        [
            call(0, id="a", function={"name": "one", "arguments": ""}),
            call(1, id="b", function={"name": "two", "arguments": ""}),
            call(1, function={"arguments": '{"n":2}'}),
            call(0, function={"arguments": '{"n":1}'}),
        ],
        # complete calls that all have index 0
        [
            call(0, id="a", function={"name": "one", "arguments": '{"n":1}'}),
            call(0, id="b", function={"name": "two", "arguments": '{"n":2}'}),
        ],
        # without an index, and without an id
        [
            call(None, function={"name": "one", "arguments": '{"n":'}),
            call(None, function={"arguments": "1}"}),
            call(None, function={"name": "two", "arguments": '{"n":2}'}),
        ],
        # id and name repeated in every part
        [
            call(0, id="a", function={"name": "one", "arguments": '{"n"'}),
            call(0, id="a", function={"name": "one", "arguments": ":1}"}),
            call(1, id="b", function={"name": "two", "arguments": '{"n":2}'}),
        ],
    ],
)
def test_tool_calls_are_joined_by_any_servers_rule(parts: list[JsonValue]) -> None:
    done = streamed(*parts, finish="tool_calls")
    assert [(one.name, one.arguments) for one in done.calls] == [
        ("one", '{"n":1}'),
        ("two", '{"n":2}'),
    ]


def test_a_character_in_two_halves_is_one_character() -> None:
    stream = StreamedCompletion()
    for half in ("\\ud83d", "\\ude00"):
        stream.add('{"choices":[{"delta":{"content":"' + half + '"}}]}')
    stream.add("[DONE]")
    assert read_response(stream.body(), "m", 1.0).text == "😀"


def test_an_error_in_the_middle_is_no_answer() -> None:
    stream = StreamedCompletion()
    stream.add('{"choices":[{"delta":{"content":"half"}}]}')
    stream.add('{"error":{"code":502,"message":"upstream gone"},"choices":[{"delta":{}}]}')
    with pytest.raises(ModelFailed, match="upstream gone"):
        read_response(stream.body(), "m", 1.0)


def test_a_stream_without_an_end_is_incomplete() -> None:
    streamed({"content": "half"}, finish=None)
