"""The Anthropic adapter against a server that follows the documentation of the Messages API."""

import itertools
from collections.abc import AsyncIterator

import orjson
import pytest
from pydantic import JsonValue

from choir_common.errors import ChoirError, RateLimited
from choir_common.wire.model import JsonObject
from choir_models.model import (
    NO_LISTENER,
    Completion,
    NoModelResponse,
    OutputListener,
    Prompt,
)
from choir_models.registry import ModelRegistry
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.anthropic_rules import blocks_of, objects
from choir_testing.providers.provider import (
    KEY,
    Answer,
    Call,
    ErrorFault,
    FaultKind,
    Usage,
)
from choir_testing.providers.server import run_provider
from tests.service.models.history import Recorder

TOOLS = orjson.dumps([{"type": "function", "function": {"name": "note", "parameters": {}}}])
LONG = "word " * 1_000


@pytest.fixture
async def provider() -> AsyncIterator[AnthropicProvider]:
    async with run_provider(AnthropicProvider()) as server:
        yield server


@pytest.fixture
async def registry() -> AsyncIterator[ModelRegistry]:
    models = ModelRegistry()
    yield models
    await models.close()


class Chat:
    """A conversation with the provider's model, kept as the agent keeps it."""

    def __init__(
        self, registry: ModelRegistry, provider: AnthropicProvider, **changes: object
    ) -> None:
        self.registry = registry
        self.provider = provider
        self.settings = provider.settings(**changes)
        self.messages: list[JsonObject] = [{"role": "system", "content": f"Be brief. {LONG}"}]
        self.listener: OutputListener = NO_LISTENER

    async def say(self, text: JsonValue, *notes: str) -> Completion:
        self.messages.append({"role": "user", "content": text})
        return await self.think(*notes)

    async def think(self, *notes: str) -> Completion:
        """Call the model and keep its answer with its fields, as the agent's log does."""
        self.messages += [{"role": "system", "content": note} for note in notes]
        messages = tuple(map(orjson.dumps, self.messages))
        prompt = Prompt(messages, TOOLS)
        answer = await self.registry.think(self.settings, KEY, prompt, self.listener)
        message: JsonObject = {"role": "assistant", "content": answer.text or None}
        if answer.calls:
            message["tool_calls"] = [
                {
                    **call.fields,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in answer.calls
            ]
        self.messages.append({**message, **answer.fields})
        return answer

    def add_results(self, answer: Completion, content: JsonValue = "done") -> None:
        for call in answer.calls:
            call_id = call.fields["id"]
            self.messages.append({"role": "tool", "tool_call_id": call_id, "content": content})


@pytest.fixture
def chat(registry: ModelRegistry, provider: AnthropicProvider) -> Chat:
    return Chat(registry, provider)


FULL = Answer(
    text="I look it up.",
    calls=tuple(Call("note", {"number": number}) for number in range(5)),
    reasoning="The user wants five notes.",
    usage=Usage(100, 50, cached_tokens=60, cache_write_tokens=30, reasoning_tokens=20),
)


async def test_an_answer_has_text_calls_thoughts_and_usage(chat: Chat) -> None:
    chat.provider.script(FULL)
    answer = await chat.say("go")
    assert (answer.text, answer.model, answer.finish_reason) == (
        "I look it up.",
        "fake-model",
        "tool_calls",
    )
    assert [orjson.loads(call.arguments) for call in answer.calls] == [
        {"number": number} for number in range(5)
    ]
    counts = (answer.prompt_tokens, answer.completion_tokens, answer.reasoning_tokens)
    assert counts == (100, 50, 20)
    assert (answer.cached_tokens, answer.cache_write_tokens) == (60, 30)


async def test_a_stream_gives_the_same_answer_and_its_text_as_it_comes(chat: Chat) -> None:
    chat.provider.script(FULL, FULL)
    whole = await chat.say("go")
    chat.messages = chat.messages[:2]
    chat.listener = recorder = Recorder()
    streamed = await chat.think()
    assert recorder.texts == ["I ", "look ", "it ", "up."]
    assert (streamed.text, streamed.prompt_tokens, streamed.cached_tokens) == (
        whole.text,
        100,
        60,
    )
    assert [call.arguments for call in streamed.calls] == [call.arguments for call in whole.calls]
    thoughts = [answer.fields["anthropic"]["content"][0] for answer in (whole, streamed)]  # type: ignore[index, call-overload]
    assert [thought["thinking"] for thought in thoughts] == [FULL.reasoning] * 2  # type: ignore[index, call-overload]


@pytest.mark.parametrize("redacts", [False, True])
@pytest.mark.parametrize("changes", [{"reasoning_effort": "high"}, {"thinking_budget": 2_000}])
async def test_thoughts_come_back_unchanged_through_several_steps(
    chat: Chat, redacts: bool, changes: dict[str, object]
) -> None:
    chat.provider.redacts_thinking = redacts
    chat.provider.binds_thinking = True
    chat.settings = chat.provider.settings(**changes)
    chat.provider.script(FULL, FULL, Answer("Noted.", reasoning="Done."), FULL)
    for text in ("go", None, None, "again"):
        answer = await (chat.say(text) if text else chat.think())
        chat.add_results(answer)
    assert chat.provider.refusals == []
    last = objects(chat.provider.requests[3].body["messages"])
    kinds = [block["type"] for message in last for block in blocks_of(message)]
    assert kinds.count("redacted_thinking" if redacts else "thinking") == 3


async def test_calls_of_another_model_are_sent_without_thoughts(chat: Chat) -> None:
    chat.settings = chat.provider.settings(thinking_budget=2_000)
    function = {"name": "note", "arguments": "{}"}
    calls: list[JsonValue] = [{"id": "c1", "type": "function", "function": function}]
    chat.messages += [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    await chat.think()
    assert "thinking" not in chat.provider.requests[0].body
    await chat.say("more")
    assert "thinking" in chat.provider.requests[1].body
    assert chat.provider.refusals == []


async def test_thoughts_are_dropped_if_what_precedes_them_has_changed(chat: Chat) -> None:
    chat.provider.binds_thinking = True
    chat.provider.default = Answer("Well.", reasoning="Hm.")
    await chat.say("go", "Running core jobs: none.")
    del chat.messages[2]
    await chat.say("more")
    await chat.say("and more")
    # refused once; from then on the API is told to drop them
    assert len(chat.provider.refusals) == 1
    last = chat.provider.requests[-1]
    assert "thinking-binding-controls" in last.headers["anthropic-beta"]
    behavior = {"prefix_mismatch_behavior": "drop_block"}
    assert last.body["thinking"] == {"type": "adaptive", "block_binding": behavior}


async def test_each_request_reads_the_one_before_from_the_cache(chat: Chat) -> None:
    # more blocks for each step than the provider looks back
    many = tuple(Call("note", {"number": number}) for number in range(12))
    chat.provider.default = Answer(calls=many, reasoning="Many notes.")
    for step in range(4):
        note = f"Running core jobs: {step}"
        answer = await (chat.say("go", note) if step == 0 else chat.think(note))
        chat.add_results(answer)
    uses = chat.provider.cache_uses
    assert chat.provider.refusals == [] and uses[0].read == 0
    for before, use in itertools.pairwise(uses):
        assert use.read == before.blocks


@pytest.mark.parametrize(
    ("kind", "expected"), [("overloaded", NoModelResponse), ("rate", RateLimited)]
)
async def test_an_error_in_the_middle_of_a_stream_is_classified(
    chat: Chat, kind: FaultKind, expected: type[ChoirError]
) -> None:
    chat.listener = Recorder()
    chat.provider.stream_error = ErrorFault(kind)
    with pytest.raises(expected):
        await chat.say("go")


@pytest.mark.parametrize("streams", [False, True])
async def test_a_paused_answer_is_continued(chat: Chat, streams: bool) -> None:
    chat.listener = Recorder() if streams else NO_LISTENER
    chat.provider.stop_reason = "pause_turn"
    chat.provider.script(Answer("One.", usage=Usage(10, 5)), Answer("Two.", usage=Usage(20, 7)))
    answer = await chat.say("go")
    assert (answer.text, answer.finish_reason) == ("One.\n\nTwo.", "stop")
    assert (answer.prompt_tokens, answer.completion_tokens) == (30, 12)
    assert chat.provider.refusals == []
    # what the provider's tool was asked is part of the history
    await chat.say("more")
    assert chat.provider.refusals == []


async def test_an_endpoint_may_end_with_the_version_and_the_key_is_sent_once(chat: Chat) -> None:
    chat.settings = chat.provider.settings(endpoint=f"{chat.provider.endpoint}/v1/")
    await chat.say("go")
    (request,) = chat.provider.requests
    assert request.path == "/v1/messages"
    assert [name for name, value in request.headers.items() if KEY in value] == ["authorization"]
