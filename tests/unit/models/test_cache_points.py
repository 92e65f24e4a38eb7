"""Which parts of a prompt are cached, for models that must be asked for it."""

import orjson
import pytest
from pydantic import JsonValue

from choir_common.wire.config import ModelConfig
from choir_common.wire.model import JsonObject
from choir_models.anthropic.request import render_request
from choir_models.cache_points import cache_points, cache_ttl
from choir_models.model import Prompt
from choir_models.openai.codec import read_response
from choir_models.openai.codec import render_request as render_openai
from choir_testing.providers.anthropic_rules import check_request

TOOLS = b'[{"type":"function","function":{"name":"f"}}]'
LONG = "word " * 1_000
OPENROUTER = ModelConfig(
    model="anthropic/claude-sonnet-5", endpoint="https://openrouter.ai/api/v1", temperature=None
)
DIRECT = ModelConfig(api="anthropic", model="claude")


def prompt(*roles: str, tools: bytes = TOOLS, text: str = LONG) -> Prompt:
    """Return a prompt with messages of these roles; a tool message answers the call before it."""
    messages: list[JsonObject] = []
    for index, role in enumerate(roles):
        message: JsonObject = {"role": role, "content": f"{index} {text}"}
        if role == "assistant" and roles[index + 1 : index + 2] == ("tool",):
            function = {"name": "f", "arguments": "{}"}
            message["tool_calls"] = [{"id": f"c{index}", "type": "function", "function": function}]
        if role == "tool":
            message["tool_call_id"] = f"c{index - 1}"
        messages.append(message)
    return Prompt(tuple(map(orjson.dumps, messages)), tools)


@pytest.mark.parametrize(
    ("roles", "points"),
    [
        (("system", "user"), {0, 1}),
        (("system", "user", "assistant", "tool"), {0, 1, 3}),
        (("system", "user", "assistant", "tool", "assistant", "user"), {0, 3, 5}),
        (("system", "user", "assistant", "assistant", "user"), {0, 1, 4}),
        (("system", "user", "system", "assistant", "tool", "user", "system"), {0, 2, 6}),
    ],
)
def test_the_end_of_this_request_and_of_the_one_before_are_cached(
    roles: tuple[str, ...], points: set[int]
) -> None:
    assert cache_points(prompt(*roles)) == points


def test_short_prefixes_and_prompts_without_tools_are_not_cached() -> None:
    assert cache_points(prompt("system", "user", text="short")) == set()
    assert cache_points(prompt("system", "user", tools=b"[]")) == set()
    assert cache_points(Prompt(())) == set()


@pytest.mark.parametrize(
    ("settings", "ttl"),
    [
        (DIRECT, "5m"),
        (OPENROUTER, "5m"),
        (OPENROUTER.model_copy(update={"model": "openai/gpt-5"}), None),
        (OPENROUTER.model_copy(update={"endpoint": "http://127.0.0.1:4000/v1"}), None),
        (ModelConfig(model="m", prompt_cache="1h"), "1h"),
        (DIRECT.model_copy(update={"prompt_cache": "off"}), None),
    ],
)
def test_caching_is_requested_if_it_is_set_or_the_provider_is_known(
    settings: ModelConfig, ttl: str | None
) -> None:
    assert cache_ttl(settings) == ttl


def marks(blocks: JsonValue) -> list[JsonValue]:
    assert isinstance(blocks, list)
    return [block.get("cache_control") for block in blocks if isinstance(block, dict)]


def test_the_marks_are_on_the_last_blocks_of_their_messages() -> None:
    settings = DIRECT.model_copy(update={"prompt_cache": "1h"})
    asked = prompt("system", "user", "assistant", "tool", "system")
    body = render_request(settings, asked)
    check_request(body)
    hour = {"type": "ephemeral", "ttl": "1h"}
    assert marks(body["system"]) == [hour]
    first, answer, results = body["messages"]  # type: ignore[misc]
    assert marks(first["content"]) == [hour]  # type: ignore[index, call-overload]
    assert marks(answer["content"]) == [None, None]  # type: ignore[index, call-overload]
    # the note is in the result
    assert marks(results["content"]) == [hour]  # type: ignore[index, call-overload]


def test_for_openrouter_only_marked_messages_are_rewritten() -> None:
    asked = prompt("system", "user", "assistant", "tool", "system")
    body = orjson.loads(render_openai(OPENROUTER, asked))
    own = [orjson.loads(message) for message in asked.messages]
    for index in (0, 1, 4):
        mark = {"type": "ephemeral"}
        part = {"type": "text", "text": own[index]["content"], "cache_control": mark}
        assert body["messages"][index] == {**own[index], "content": [part]}
    assert [body["messages"][2], body["messages"][3]] == [own[2], own[3]]


def test_written_tokens_at_openrouter_are_counted() -> None:
    details = {"cached_tokens": 70, "cache_write_tokens": 25}
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": details}
    choice = {"message": {"content": "hi"}, "finish_reason": "stop"}
    answer = read_response(orjson.dumps({"choices": [choice], "usage": usage}), "m", 1.0)
    assert (answer.prompt_tokens, answer.cached_tokens, answer.cache_write_tokens) == (100, 70, 25)


def test_a_mark_is_on_the_last_text_of_a_message_in_parts() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    parts = [{"type": "text", "text": LONG}, picture]
    asked = Prompt((orjson.dumps({"role": "user", "content": parts}),), TOOLS)
    (message,) = orjson.loads(render_openai(OPENROUTER, asked))["messages"]
    assert message["content"] == [{**parts[0], "cache_control": {"type": "ephemeral"}}, picture]
