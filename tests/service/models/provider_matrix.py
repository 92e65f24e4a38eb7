"""The scenarios that every provider must pass, run through its adapter and the agent's own rendering.

A scenario raises AssertionError if the adapter is wrong, and returns a cell of the matrix in
docs/providers.md. `python -m tests.service.models.provider_matrix` prints that matrix.
"""

import asyncio
import base64
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Sequence

import orjson
import pytest

from choir_agent.log.committed_event import CommittedEvent
from choir_agent.prompt.event_messages import note_message, step_messages
from choir_agent.prompt.history_format import HistoryFormat
from choir_common.errors import ChoirError, RateLimited
from choir_common.wire.config import ModelConfig
from choir_common.wire.events import (
    ModelOutput,
    PromptNote,
    ProviderFields,
    ToolCall,
    ToolResultCommitted,
)
from choir_models.model import (
    NO_LISTENER,
    Completion,
    ContextOverflow,
    FailureCause,
    ModelFailed,
    ModelRequestRejected,
    NoModelResponse,
    OutputListener,
    Prompt,
    model_id,
)
from choir_models.provider_fields import has_fields
from choir_models.registry import ModelRegistry
from choir_testing import providers
from choir_testing.providers.provider import (
    Answer,
    Call,
    Disconnect,
    ErrorFault,
    FakeProvider,
    FaultKind,
    Usage,
)
from choir_testing.providers.server import run_provider

YES, NO_IMAGES, WHOLE, NO_FILTER = "yes", "text only", "whole answers", "no filter"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 40).decode()
WEATHER = "It rains in the morning, and the sun shines after noon."
TOOLS = orjson.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": f"read_{what}",
                "description": f"Read the {what}.",
                "parameters": {
                    "type": "object",
                    "properties": {"place": {"type": "string"}},
                    "required": ["place"],
                },
            },
        }
        for what in ("weather", "calendar", "news", "mail", "clock")
    ]
)


def every_provider() -> dict[str, type[FakeProvider]]:
    """Return the fakes in `choir_testing.providers`, by their names in the matrix."""
    found: dict[str, type[FakeProvider]] = {}
    for module_info in pkgutil.iter_modules(providers.__path__, f"{providers.__name__}."):
        module = importlib.import_module(module_info.name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, FakeProvider) and "name" in vars(kind):
                found[kind.name] = kind
    return found


class Recorder:
    """Listener that records the parts of a text."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.first_part = asyncio.Event()

    def add_text(self, text: str) -> None:
        self.parts.append(text)
        self.first_part.set()

    def add_hidden(self, characters: int) -> None:
        """Nothing to record."""

    def restart(self) -> None:
        self.parts.clear()


class _OwnNames:
    def model_name(self, name: str) -> str | None:
        return name


class Conversation:
    """A conversation with a provider; its history is rendered by the agent's code."""

    def __init__(self, registry: ModelRegistry, provider: FakeProvider) -> None:
        self.provider = provider
        self._registry = registry
        self.changes: dict[str, object] = {}
        """Settings of the model that differ."""
        self._messages = [orjson.dumps({"role": "system", "content": "You are a gardener."})]

    async def ask(
        self, content: object, *, listener: OutputListener = NO_LISTENER, **changes: object
    ) -> Completion:
        """Send a user's message and return the answer."""
        self.add_user_message(content)
        return await self.think(listener, **changes)

    def add_user_message(self, content: object) -> None:
        """Add a user's message to the history."""
        self._messages.append(orjson.dumps({"role": "user", "content": content}))

    async def think(
        self,
        listener: OutputListener = NO_LISTENER,
        *,
        key: str | None = None,
        notes: tuple[PromptNote, ...] = (),
        **changes: object,
    ) -> Completion:
        """Call the model; add its answer, and a result of each of its calls, to the history."""
        settings = self.provider.settings(**{**self.changes, **changes})
        completion = await self._registry.think(
            settings,
            self.provider.key if key is None else key,
            Prompt((*self._messages, *map(note_message, notes)), TOOLS),
            listener,
        )
        self._messages += step_messages(
            _events(completion, settings, len(self._messages), notes),
            "edge",
            _OwnNames(),
            HistoryFormat(model_id(settings)),
        )
        return completion


def _events(
    completion: Completion, settings: ModelConfig, step: int, notes: tuple[PromptNote, ...]
) -> Sequence[CommittedEvent]:
    """Return what the agent's log would contain of a step."""
    fields = tuple(call.fields for call in completion.calls)
    kept = ProviderFields(origin=model_id(settings), message=completion.fields, calls=fields)
    calls = tuple(
        ToolCall(call_id=f"own_{step}_{n}", tool=call.name, arguments=call.arguments)
        for n, call in enumerate(completion.calls)
    )
    output = ModelOutput(
        turn_id="turn",
        text=completion.text,
        tool_calls=calls,
        model=completion.model,
        finish_reason=completion.finish_reason,
        provider_fields=kept if has_fields(completion.fields, fields) else None,
        notes=notes,
    )
    results = [
        ToolResultCommitted(
            turn_id="turn",
            call_id=call.call_id,
            tool=call.tool,
            status="success",
            output={"text": f"result of {call.tool}"},
        )
        for call in calls
    ]
    return [CommittedEvent(1, "", "edge", "", payload) for payload in (output, *results)]


async def plain(talk: Conversation) -> str:
    usage = Usage(
        prompt_tokens=900,
        completion_tokens=70,
        cached_tokens=600,
        reasoning_tokens=20,
    )
    talk.provider.script(Answer(WEATHER, usage=usage))
    completion = await talk.ask("How is the weather?")
    assert (completion.text, completion.calls) == (WEATHER, ())
    assert (completion.prompt_tokens, completion.completion_tokens) == (900, 70)
    counted = (completion.cached_tokens, completion.reasoning_tokens)
    assert counted[0] in (600, 0) and counted[1] in (20, 0)
    return YES if counted == (600, 20) else "yes, not all counts"


async def five_tools(talk: Conversation) -> str:
    names = ("read_weather", "read_calendar", "read_news", "read_mail", "read_clock")
    talk.provider.script(*(Answer(calls=(Call(name, {"place": "home"}),)) for name in names))
    talk.provider.script(Answer(WEATHER))
    completion = await talk.ask("Use each tool once.")
    for name in names:
        assert [call.name for call in completion.calls] == [name]
        assert orjson.loads(completion.calls[0].arguments) == {"place": "home"}
        completion = await talk.think()
    assert completion.text == WEATHER
    return YES


async def parallel_tools(talk: Conversation) -> str:
    calls = tuple(Call("read_weather", {"place": place}) for place in ("here", "there", "far off"))
    talk.provider.script(Answer("I look.", calls), Answer(WEATHER))
    completion = await talk.ask("Read all at once.")
    places = [orjson.loads(call.arguments)["place"] for call in completion.calls]
    assert places == ["here", "there", "far off"]
    assert (await talk.think()).text == WEATHER
    return YES


async def reasoning(talk: Conversation) -> str:
    thoughtful = Answer(calls=(Call("read_weather", {"place": "home"}),), reasoning="I must look.")
    talk.provider.script(thoughtful, thoughtful, Answer(WEATHER, reasoning="It rains."), Answer())
    for _ in range(2):
        assert (await talk.think() if _ else await talk.ask("Think.")).text == ""
    answered = await talk.think()
    # thoughts go back in the provider's own fields, never into the text
    assert answered.text == WEATHER
    await talk.ask("And now?")
    return YES


async def image(talk: Conversation) -> str:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
    ]
    if not getattr(talk.provider, "sees_images", True):
        with pytest.raises(ModelRequestRejected):
            await talk.ask(parts)
        return NO_IMAGES
    talk.provider.script(Answer("A pixel."))
    assert (await talk.ask(parts)).text == "A pixel."
    assert talk.provider.images_of(talk.provider.requests[-1]) == [PIXEL]
    return YES


async def streaming(talk: Conversation) -> str:
    calls = (Call("read_weather", {"place": "home"}), Call("read_clock", {"place": "home"}))
    talk.provider.script(Answer(WEATHER, calls, reasoning="I look."), Answer("Dry."))
    recorder = Recorder()
    completion = await talk.ask("How is the weather?", listener=recorder)
    assert completion.text == WEATHER
    assert [orjson.loads(call.arguments) for call in completion.calls] == [{"place": "home"}] * 2
    assert (completion.prompt_tokens, completion.completion_tokens) == (1_000, 50)
    assert (await talk.think(recorder)).text == "Dry."
    if not recorder.parts:
        return WHOLE
    assert "".join(recorder.parts) == f"{WEATHER}Dry."
    assert len(recorder.parts) > 2
    return YES


async def cancel(talk: Conversation) -> str:
    talk.provider.script(Answer(WEATHER, pause_s=0.2))
    call = asyncio.create_task(talk.ask("Tell me slowly.", listener=Recorder()))
    async with asyncio.timeout(20):
        while not talk.provider.answers:
            await asyncio.sleep(0.01)
        call.cancel()
        # the provider stops to generate, and to charge
        await talk.provider.client_left.wait()
    assert (await asyncio.gather(call, return_exceptions=True))[0].__class__ is (
        asyncio.CancelledError
    )
    return YES


async def status_401(talk: Conversation) -> str:
    return await _fails(talk, ModelFailed, "key", key="wrong-key")


async def status_404(talk: Conversation) -> str:
    return await _fails(talk, ModelFailed, "not_found", model="no-such-model")


async def status_429(talk: Conversation) -> str:
    talk.provider.script(ErrorFault("rate", retry_after_s=7))
    with pytest.raises(RateLimited) as limited:
        await talk.ask("Hello?")
    assert limited.value.retry_after_s in (7, None)
    await _answers_again(talk)
    return YES if limited.value.retry_after_s else "yes, without a wait"


async def status_500(talk: Conversation) -> str:
    talk.provider.script(ErrorFault("server"), ErrorFault("overloaded"))
    for _ in range(2):
        with pytest.raises(NoModelResponse):
            await talk.ask("Hello?")
    await _answers_again(talk)
    return YES


async def cut_connection(talk: Conversation) -> str:
    talk.provider.script(
        Disconnect(), Answer(WEATHER, abort_after=0), Answer(WEATHER, abort_after=1)
    )
    for _ in range(3):
        with pytest.raises(NoModelResponse) as cut:
            await talk.ask("Hello?", listener=Recorder())
        assert cut.value.cause == "connection"
    await _answers_again(talk)
    return YES


async def context_overflow(talk: Conversation) -> str:
    return await _fails(talk, ContextOverflow, "too_long", fault="overflow")


async def content_filter(talk: Conversation) -> str:
    if not talk.provider.filters_content:
        await _answers_again(talk)
        return NO_FILTER
    return await _fails(talk, ModelFailed, "filter", fault="filter")


async def _fails(
    talk: Conversation,
    kind: type[ModelFailed],
    cause: FailureCause,
    *,
    fault: FaultKind | None = None,
    **changes: object,
) -> str:
    if fault is not None:
        talk.provider.script(ErrorFault(fault))
    with pytest.raises(kind) as failed:
        await talk.ask("Hello?", **changes)
    assert failed.value.cause == cause
    # some providers quote the key
    assert talk.provider.key not in failed.value.message or not talk.provider.key
    await _answers_again(talk)
    return YES


async def _answers_again(talk: Conversation) -> None:
    assert (await talk.ask("Hello again?")).text == "All is well."


Scenario = Callable[[Conversation], Awaitable[str]]

SCENARIOS: dict[str, Scenario] = {
    "plain": plain,
    "five tools": five_tools,
    "parallel tools": parallel_tools,
    "reasoning": reasoning,
    "image": image,
    "streaming": streaming,
    "cancel": cancel,
    "401": status_401,
    "404": status_404,
    "429": status_429,
    "500": status_500,
    "cut connection": cut_connection,
    "context overflow": context_overflow,
    "content filter": content_filter,
}
"""The columns of the matrix, in their order."""


async def run_scenarios(name: str) -> dict[str, str]:
    """Run all scenarios against one provider and return its column; a failed one has the reason."""
    return {scenario: await _run_scenario(name, scenario) for scenario in SCENARIOS}


async def _run_scenario(name: str, scenario: str) -> str:
    registry = ModelRegistry()
    try:
        async with run_provider(every_provider()[name]()) as provider:
            outcome = await SCENARIOS[scenario](Conversation(registry, provider))
            # the only request that may be refused is one with an image
            assert len(provider.refusals) == (outcome == NO_IMAGES), provider.refusals
            return outcome
    except (AssertionError, ChoirError, pytest.fail.Exception, TimeoutError) as error:
        return f"failed: {error!r}"
    finally:
        await registry.close()


async def _print_matrix() -> None:
    columns = {name: await run_scenarios(name) for name in every_provider()}
    print("| scenario |", " | ".join(f"`{name}`" for name in columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for scenario in SCENARIOS:
        cells = [column[scenario] for column in columns.values()]
        print("|", " | ".join([scenario, *cells]), "|")


if __name__ == "__main__":
    asyncio.run(_print_matrix())
