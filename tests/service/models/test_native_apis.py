"""What every native API has in common: texts, calls, files, usage, errors and cancellation."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from choir_common.errors import RateLimited
from choir_models.model import ContextOverflow, ModelFailed, ModelRequestRejected, NoModelResponse
from choir_models.output_limits import CUT
from choir_testing.providers.anthropic import AnthropicProvider
from choir_testing.providers.gemini import Gemini
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import (
    Answer,
    Call,
    Disconnect,
    ErrorFault,
    FakeProvider,
    Usage,
)
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.history import (
    PIXEL,
    SYSTEM,
    TOOL_NAMES,
    assistant,
    image,
    pdf,
    prompt,
    results,
    user,
)

FIVE = tuple(Call(name, {"path": name}) for name in TOOL_NAMES)


@pytest.fixture(params=[AnthropicProvider, Gemini, OpenAiResponses])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[FakeProvider]:
    async with run_provider(request.param()) as provider:
        yield provider


async def test_an_answer_has_its_text_and_its_usage(caller: Caller, provider: FakeProvider) -> None:
    usage = Usage(1_000, 90, cached_tokens=600, reasoning_tokens=40)
    provider.script(Answer("Two words here.", reasoning="hm", usage=usage))
    completion = await caller.think(provider, prompt(SYSTEM, user("hi")))
    assert completion.text == "Two words here." and completion.finish_reason == "stop"
    assert completion.model == provider.model
    assert (completion.prompt_tokens, completion.completion_tokens) == (1_000, 90)
    assert (completion.cached_tokens, completion.reasoning_tokens) == (600, 40)
    assert "".join(caller.heard.texts) == ("Two words here." if caller.is_heard else "")
    assert len(caller.heard.texts) == (3 if caller.is_heard else 0)


async def test_thoughts_and_parallel_calls_go_back_in_every_turn(
    caller: Caller, provider: FakeProvider
) -> None:
    provider.script(Answer("I look.", FIVE), Answer("", FIVE[:2]), Answer("Done.", reasoning="hm"))
    messages = [SYSTEM, user("look")]
    for number, calls in ((1, FIVE), (2, FIVE[:2])):
        step = await caller.think(provider, prompt(*messages))
        assert [call.name for call in step.calls] == [call.name for call in calls]
        assert step.finish_reason == "tool_calls"
        messages += [assistant(step, number), *results(step, number)]
    done = await caller.think(provider, prompt(*messages))
    await caller.think(provider, prompt(*messages, assistant(done), user("and now?")))
    assert provider.refusals == [] and len(provider.requests) == 4


async def test_images_and_documents_reach_the_model_from_users_and_tools(
    caller: Caller, provider: FakeProvider
) -> None:
    provider.script(Answer("", FIVE[:1]))
    shown = {"role": "user", "content": [{"type": "text", "text": "see"}, image(), pdf()]}
    step = await caller.think(provider, prompt(shown))
    content = [{"type": "text", "text": '{"status":"success"}'}, image("aGFsbG8=")]
    result = {"role": "tool", "tool_call_id": "call_1_0", "content": content}
    await caller.think(provider, prompt(shown, assistant(step), result))
    assert provider.refusals == []
    images = [*provider.images_of(provider.requests[1])]
    assert images[0] == PIXEL and images[-1] == "aGFsbG8="


async def test_an_output_at_its_limit_says_so(caller: Caller, provider: FakeProvider) -> None:
    provider.script(
        Answer("The first half", is_cut=True), Answer("", reasoning="long", is_cut=True)
    )
    completion = await caller.think(provider, prompt(user("write")))
    assert completion.text == f"The first half\n\n{CUT}" and completion.finish_reason == "length"
    only_thought = await caller.think(provider, prompt(user("write")))
    assert only_thought.text == CUT
    again = prompt(user("write"), assistant(only_thought), user("go on"))
    assert (await caller.think(provider, again)).text == "All is well."


@pytest.mark.parametrize(
    ("fault", "kind", "cause"),
    [
        (ErrorFault("not_found"), ModelFailed, "not_found"),
        (ErrorFault("credit"), ModelFailed, "credit"),
        (ErrorFault("server"), ModelFailed, "provider"),
        (ErrorFault("overloaded"), NoModelResponse, "provider"),
        (ErrorFault("invalid"), ModelRequestRejected, "request"),
        (ErrorFault("overflow"), ContextOverflow, "too_long"),
        (ErrorFault("filter"), ModelFailed, "filter"),
        (Disconnect(), NoModelResponse, "connection"),
        (Answer("a b c d", abort_after=1), NoModelResponse, "connection"),
    ],
    ids=lambda fault: str(getattr(fault, "kind", fault))[:20],
)
async def test_an_error_has_its_cause(
    caller: Caller,
    provider: FakeProvider,
    fault: ErrorFault | Disconnect | Answer,
    kind: type[ModelFailed],
    cause: str,
) -> None:
    provider.script(fault)
    with pytest.raises(ModelFailed) as failure:
        await caller.think(provider, prompt(user("hi")))
    assert isinstance(failure.value, kind) and failure.value.cause == cause


async def test_a_rate_limit_says_how_long_to_wait(caller: Caller, provider: FakeProvider) -> None:
    provider.script(ErrorFault("rate", retry_after_s=34.5))
    with pytest.raises(RateLimited) as limited:
        await caller.think(provider, prompt(user("hi")))
    assert limited.value.retry_after_s == 34.5


async def test_a_wrong_key_is_reported_without_its_value(
    caller: Caller, provider: FakeProvider
) -> None:
    with pytest.raises(ModelFailed) as failure:
        await caller.think(provider, prompt(user("hi")), key="canary-key-4711")
    assert failure.value.cause == "key" and "canary" not in str(failure.value)


async def test_a_cancelled_call_closes_its_connection(
    caller: Caller, provider: FakeProvider
) -> None:
    provider.script(Answer("one two three four five", pause_s=0.3))
    call = asyncio.create_task(caller.think(provider, prompt(user("hi"))))
    async with asyncio.timeout(30):
        while not (caller.heard.texts if caller.is_heard else provider.answers):
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await provider.client_left.wait()


async def test_calls_of_another_model_are_accepted(caller: Caller, provider: FakeProvider) -> None:
    provider.script(Answer("I look.", FIVE))
    step = await caller.think(provider, prompt(user("look")))
    foreign = {k: v for k, v in assistant(step).items() if k in ("role", "content", "tool_calls")}
    history = prompt(SYSTEM, user("look"), foreign, *results(step), SYSTEM, user("well?"))
    assert (await caller.think(provider, history)).text == "All is well."
