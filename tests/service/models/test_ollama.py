"""Ollama's adapter and context lengths, against a server that follows its documentation."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import orjson
import pytest

from choir_common.errors import RateLimited
from choir_common.wire.config import ModelConfig
from choir_models.abilities import sees_pictures
from choir_models.context_windows import (
    MIN_CONTEXT,
    PAUSE_S,
    ContextWindow,
    ContextWindows,
)
from choir_models.model import (
    Completion,
    ContextOverflow,
    ModelFailed,
    ModelRequestRejected,
    NoModelResponse,
    Prompt,
)
from choir_models.registry import ModelRegistry
from choir_testing.providers.local_servers import fake_lmstudio, run_local_server
from choir_testing.providers.ollama import FakeOllama
from choir_testing.providers.provider import Answer, Call, Disconnect, ErrorFault
from choir_testing.providers.server import run_provider

TOOLS = orjson.dumps([{"type": "function", "function": {"name": "note", "parameters": {}}}])


@pytest.fixture
async def ollama() -> AsyncIterator[FakeOllama]:
    async with run_provider(FakeOllama()) as provider:
        yield provider


@pytest.fixture
async def registry() -> AsyncIterator[ModelRegistry]:
    registry = ModelRegistry()
    yield registry
    await registry.close()


def settings(ollama: FakeOllama, **changes: object) -> ModelConfig:
    return ollama.settings(secret=None, **changes)


def user(text: str) -> bytes:
    return orjson.dumps({"role": "user", "content": text})


class Recorder:
    """Listener that records the parts of a text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.first = asyncio.Event()

    def add_text(self, text: str) -> None:
        self.parts.append(text)
        self.first.set()

    def add_hidden(self, characters: int) -> None:
        """Nothing to record."""

    def restart(self) -> None:
        self.parts.clear()


def assistant_message(completion: Completion) -> bytes:
    """Return the message that sends a completion back, as the agent renders it."""
    calls = [
        {
            **call.fields,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in completion.calls
    ]
    message = {"role": "assistant", "content": completion.text or None, "tool_calls": calls}
    return orjson.dumps({**message, **completion.fields})


async def test_five_calls_and_their_thoughts_go_back_as_they_came(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    calls = tuple(Call("note", {"n": n}) for n in range(5))
    ollama.script(Answer(calls=calls, reasoning="I take notes"), Answer("Done."))
    model = settings(ollama, context_window=8_192)
    first = await registry.think(model, None, Prompt((user("take notes"),), TOOLS))
    assert [call.arguments for call in first.calls] == [f'{{"n":{n}}}' for n in range(5)]
    assert (first.prompt_tokens, first.completion_tokens) == (1_000, 50)
    results = [
        orjson.dumps({"role": "tool", "tool_call_id": call.fields["id"], "content": "ok"})
        for call in first.calls
    ]
    history = (user("take notes"), assistant_message(first), *results)
    second = await registry.think(model, None, Prompt(history, TOOLS))
    assert second.text == "Done." and not ollama.refusals
    sent = ollama.requests[-1].body["messages"]
    assert isinstance(sent, list) and isinstance(sent[1], dict)
    assert sent[1]["thinking"] == "I take notes"


async def test_text_is_passed_on_while_it_arrives_and_is_the_same_at_the_end(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    ollama.script(Answer("one two three"))
    listener = Recorder()
    done = await registry.think(settings(ollama), None, Prompt((user("count"),)), listener)
    assert listener.parts == ["one", " two", " three"] and done.text == "one two three"


async def test_cancelling_a_call_closes_its_connection(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    ollama.script(Answer("one two three", pause_s=0.05, abort_after=None), Answer("x"))
    listener = Recorder()
    model = settings(ollama, context_window=8_192)
    call = asyncio.create_task(registry.think(model, None, Prompt((user("count"),)), listener))
    await asyncio.wait_for(listener.first.wait(), 5)
    call.cancel()
    await asyncio.wait_for(ollama.client_left.wait(), 5)


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        ("not_found", ModelFailed, "run `ollama pull fake-model:latest`"),
        ("key", ModelFailed, "API key"),
        ("rate", RateLimited, "rate of requests"),
        ("server", ModelFailed, "answered 500"),
        ("overloaded", NoModelResponse, "answered 503"),
        ("overflow", ContextOverflow, "context window"),
        ("invalid", ModelRequestRejected, "invalid request"),
        ("filter", ModelFailed, "content filter"),
    ],
)
async def test_each_error_has_its_class_and_says_what_to_do(
    ollama: FakeOllama, registry: ModelRegistry, kind: str, error: type[Exception], text: str
) -> None:
    ollama.script(ErrorFault(kind))  # type: ignore[arg-type]  # the parameters are of this kind
    with pytest.raises(error, match=text):
        await registry.think(settings(ollama, context_window=8_192), None, Prompt((user("x"),)))


async def test_a_cut_connection_is_no_response_and_a_silent_server_times_out(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    model = settings(ollama, context_window=8_192, timeout_ms=1_000)
    ollama.script(Disconnect(), Answer("one two three", abort_after=2))
    for _ in range(2):
        with pytest.raises(NoModelResponse):
            await registry.think(model, None, Prompt((user("x"),)), Recorder())


async def test_a_prompt_that_is_too_long_is_refused_and_not_cut(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    long = Prompt((user("word " * 9_000),))
    with pytest.raises(ContextOverflow):
        await registry.think(settings(ollama, context_window=8_192), None, long)


async def test_the_length_of_the_loaded_model_is_obeyed_and_not_changed(ollama: FakeOllama) -> None:
    ollama.context_length = 32_768
    window = await ContextWindows().find(settings(ollama), None)
    assert (window.tokens, window.server, window.is_known) == (32_768, "ollama", True)
    registry = ModelRegistry()
    await registry.think(settings(ollama), None, Prompt((user("x"),)))
    await registry.close()
    assert ollama.loads == 1 and ollama.loaded == 32_768


async def test_ollama_is_asked_for_the_least_that_works_if_its_own_setting_is_less(
    ollama: FakeOllama, registry: ModelRegistry
) -> None:
    assert ollama.context_length < MIN_CONTEXT
    await registry.think(settings(ollama), None, Prompt((user("x"),)))
    assert ollama.loaded == MIN_CONTEXT


async def test_a_configured_length_is_requested_up_to_the_models_own(ollama: FakeOllama) -> None:
    windows = ContextWindows()
    assert (await windows.find(settings(ollama, context_window=16_384), None)).tokens == 16_384
    assert (await windows.find(settings(ollama, context_window=99_000), None)).tokens == 40_960
    assert ollama.loads == 0


@pytest.mark.parametrize(
    ("capabilities", "configured", "sees"),
    [
        (["tools", "vision"], None, True),
        # a name that looks like one of a model that sees
        (["tools"], None, False),
        (["tools"], ("text", "image"), True),
    ],
)
async def test_the_server_tells_whether_a_model_reads_pictures(
    ollama: FakeOllama, capabilities: list[str], configured: tuple[str, ...] | None, sees: bool
) -> None:
    ollama.capabilities, ollama.model = capabilities, "gemma3:latest"
    model = settings(ollama, model="gemma3", input=configured)
    assert sees_pictures(await ContextWindows().fill_in(model, None)) is sees


class StoppedClock:
    """Clock that a test sets."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def now(self) -> datetime:
        return datetime.now(UTC)


async def test_a_server_that_did_not_tell_is_asked_again_after_a_pause() -> None:
    clock = StoppedClock()
    windows = ContextWindows(clock)
    async with run_local_server(fake_lmstudio("q", loaded=None)) as server:
        model = ModelConfig(provider="lmstudio", model="q", endpoint=f"{server.address}/v1")
        assert await windows.find(model, None) == ContextWindow(
            MIN_CONTEXT, "lmstudio", False, False
        )
        server.lists = fake_lmstudio("q", loaded=32_768).lists
        assert (await windows.find(model, None)).tokens == MIN_CONTEXT
        clock.seconds += PAUSE_S
        assert await windows.find(model, None) == ContextWindow(32_768, "lmstudio", True, False)
        count = len(server.paths)
        clock.seconds += PAUSE_S
        await windows.find(model, None)
        assert len(server.paths) == count, "an answer is stored"


async def test_a_server_that_does_not_run_yet_is_no_error() -> None:
    windows = ContextWindows()
    model = ModelConfig(api="ollama", model="m", endpoint="http://127.0.0.1:1")
    assert await windows.find(model, None) == ContextWindow(MIN_CONTEXT, None, False)
    remote = ModelConfig(model="m", endpoint="https://127.0.0.1:1/v1")
    assert await windows.find(remote, None) == ContextWindow(128_000)
