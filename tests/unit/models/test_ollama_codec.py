"""Requests to Ollama's own API, and what its responses become."""

from typing import Any

import orjson
import pytest

from choir_common.wire.config import ModelConfig
from choir_models.model import ContextOverflow, ModelFailed, NoModelResponse, Prompt
from choir_models.ollama.codec import render_request
from choir_models.ollama.response import ResponseReader

PNG = "aGVsbG8="


def request_for(*messages: dict[str, Any], json_only: bool = False, **settings: Any) -> Any:
    model = ModelConfig(api="ollama", model="qwen3:8b", **settings)
    prompt = Prompt(tuple(map(orjson.dumps, messages)), json_only=json_only)
    return orjson.loads(render_request(model, prompt, stream=False))


def test_settings_become_options_and_the_context_length_is_one_of_them() -> None:
    body = request_for(
        context_window=16_384, max_completion_tokens=500, request={"top_p": 0.9}, json_only=True
    )
    assert body["options"] == {
        "num_ctx": 16_384,
        "temperature": 0.7,
        "top_p": 0.9,
        "num_predict": 500,
    }
    assert (body["stream"], body["truncate"], body["shift"]) == (False, False, False)
    assert body["format"] == "json" and "think" not in body and "tools" not in body


def test_the_operators_fields_are_added_and_win() -> None:
    extra = {"keep_alive": "30m", "options": {"seed": 7, "temperature": 0}}
    body = request_for(request={"extra_body": extra}, context_window=8_192)
    assert body["keep_alive"] == "30m"
    assert body["options"] == {"num_ctx": 8_192, "temperature": 0, "seed": 7}


@pytest.mark.parametrize(
    ("effort", "think"), [("none", False), ("low", "low"), ("HIGH", "high"), ("on", True)]
)
def test_the_reasoning_effort_becomes_think(effort: str, think: object) -> None:
    assert request_for(reasoning_effort=effort)["think"] == think


def test_calls_have_objects_and_results_the_name_of_their_tool() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {"name": "choir_fs_read", "arguments": '{"path":"a"}'},
    }
    body = request_for(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
            "ollama": {"thinking": "let me look"},
        },
        {"role": "tool", "tool_call_id": "c1", "content": "text"},
    )
    assert body["messages"] == [
        {
            "role": "assistant",
            "content": "",
            "thinking": "let me look",
            "tool_calls": [
                {"id": "c1", "function": {"name": "choir_fs_read", "arguments": {"path": "a"}}}
            ],
        },
        {"role": "tool", "content": "text", "tool_name": "choir_fs_read", "tool_call_id": "c1"},
    ]


def test_images_of_tools_follow_the_results_in_a_user_message() -> None:
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    text = {"type": "text", "text": "seen"}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:x;base64,AA=="}}
    body = request_for(
        {"role": "user", "content": [text, image, file]},
        {"role": "assistant", "content": "", "tool_calls": []},
        {"role": "tool", "tool_call_id": "c1", "content": [text, image]},
        {"role": "tool", "tool_call_id": "c2", "content": "none"},
        {"role": "user", "content": "and now?"},
    )
    first, _, tool, other, images, last = body["messages"]
    assert first["images"] == [PNG] and first["content"].startswith(
        "seen\n\n[Choir] The file a.pdf"
    )
    assert (tool["content"], other["content"], "images" in tool) == ("seen", "none", False)
    assert images["role"] == "user" and images["images"] == [PNG]
    assert last["content"] == "and now?"


def test_the_same_history_gives_the_same_bytes_at_its_start() -> None:
    model = ModelConfig(api="ollama", model="m", context_window=8_192)
    first = orjson.dumps({"role": "user", "content": "a"})
    short = render_request(model, Prompt((first,)), stream=True)
    longer = render_request(model, Prompt((first, first)), stream=True)
    assert longer.startswith(short[:-2])


def read(*lines: dict[str, Any]) -> Any:
    reader = ResponseReader("m")
    for line in lines:
        reader.add_line(orjson.dumps(line))
    return reader.completion(1.0)


def test_lines_become_one_completion_with_its_counts() -> None:
    call = {
        "id": "x",
        "function": {"index": 0, "name": "choir_exec", "arguments": {"command": "ls"}},
    }
    done = read(
        {"model": "m", "message": {"role": "assistant", "content": "", "thinking": "hm"}},
        {"model": "m", "message": {"role": "assistant", "content": "I "}},
        {"model": "m", "message": {"role": "assistant", "content": "look.", "tool_calls": [call]}},
        {
            "message": {"content": ""},
            "done": True,
            "done_reason": "stop",
            "prompt_eval_count": 26,
            "eval_count": 9,
        },
    )
    assert (done.text, done.finish_reason) == ("I look.", "tool_calls")
    assert (done.prompt_tokens, done.completion_tokens) == (26, 9)
    assert (done.calls[0].name, done.calls[0].arguments) == ("choir_exec", '{"command":"ls"}')
    assert done.calls[0].fields == {"id": "x"}
    assert done.fields == {"ollama": {"thinking": "hm"}}


def test_the_thoughts_before_a_final_answer_are_not_kept() -> None:
    done = read({"message": {"content": "hello", "thinking": "hm"}, "done": True})
    assert (done.text, done.fields, done.finish_reason) == ("hello", {}, "stop")


def test_an_answer_at_the_limit_says_that_it_is_cut() -> None:
    done = read({"message": {"content": "once"}, "done": True, "done_reason": "length"})
    assert done.finish_reason == "length" and "cut off here" in done.text


def test_a_response_that_ends_early_or_is_something_else_is_an_error() -> None:
    with pytest.raises(NoModelResponse, match="before it was complete"):
        read({"message": {"content": "once"}})
    with pytest.raises(ModelFailed, match="not a chat response"):
        ResponseReader("m").add_line(b"<html>")
    with pytest.raises(ContextOverflow):
        read({"error": "the input length exceeds the context length"})
