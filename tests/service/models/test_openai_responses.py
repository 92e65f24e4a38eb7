"""The Responses API through its adapter: what it has and other APIs have not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_common.errors import RateLimited
from choir_models.model import ModelFailed, ModelRequestRejected
from choir_testing.providers.openai_responses import OpenAiResponses
from choir_testing.providers.provider import Answer, Call
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.history import (
    SYSTEM,
    TOOL_NAMES,
    assistant,
    image,
    pdf,
    prompt,
    results,
    user,
)

TWO = tuple(Call(name, {"path": name}) for name in TOOL_NAMES[:2])


@pytest.fixture
async def responses() -> AsyncIterator[OpenAiResponses]:
    async with run_provider(OpenAiResponses()) as provider:
        yield provider


def bodies(provider: OpenAiResponses) -> list[Any]:
    return [request.body for request in provider.requests]


async def test_the_items_of_an_output_go_back_as_they_came(
    caller: Caller, responses: OpenAiResponses
) -> None:
    responses.script(Answer("I look.", TWO))
    step = await caller.think(responses, prompt(SYSTEM, user("look")))
    await caller.think(responses, prompt(SYSTEM, user("look"), assistant(step), *results(step)))
    body = bodies(responses)[1]
    assert body["instructions"] == "You are an agent."
    assert body["store"] is False and body["include"] == ["reasoning.encrypted_content"]
    assert body["input"][1:5] == responses.sent[0]
    assert [item["type"] for item in body["input"]] == [
        *("message", "reasoning", "message", "function_call", "function_call"),
        *("function_call_output", "function_call_output"),
    ]
    assert [item["call_id"] for item in body["input"][5:]] == ["call_1_0_own", "call_1_1_own"]
    assert body["tools"][0]["name"] == "fs_read" and body["tools"][0]["strict"] is False


async def test_a_model_without_thoughts_is_asked_without_them_from_then_on(caller: Caller) -> None:
    async with run_provider(OpenAiResponses(has_reasoning=False)) as provider:
        provider.script(Answer("", TWO))
        step = await caller.think(provider, prompt(user("look")))
        assert step.fields == {}
        await caller.think(provider, prompt(user("look"), assistant(step), *results(step)))
        assert len(provider.refusals) == 1 and len(provider.requests) == 3
        assert "include" not in bodies(provider)[-1]


async def test_thoughts_that_are_no_longer_valid_are_reported_as_a_refused_request(
    caller: Caller, responses: OpenAiResponses
) -> None:
    responses.script(Answer("", TWO))
    step = await caller.think(responses, prompt(user("look")))
    responses.sent.clear()
    with pytest.raises(ModelRequestRejected, match="could not be verified"):
        await caller.think(responses, prompt(user("look"), assistant(step), *results(step)))


async def test_the_beginning_of_the_body_stays_the_same_from_call_to_call(
    caller: Caller, responses: OpenAiResponses
) -> None:
    responses.script(Answer("", TWO))
    note = {"role": "system", "content": "Running core jobs: none"}
    messages = [SYSTEM, user("look")]
    step = await caller.think(responses, prompt(*messages, note))
    messages += [assistant(step), *results(step)]
    await caller.think(responses, prompt(*messages, note))
    first, second = (request.raw for request in responses.requests)
    end = b',{"type":"message","role":"developer"'
    assert second.startswith(first[: first.index(end)])


async def test_settings_become_fields_of_the_request(
    caller: Caller, responses: OpenAiResponses
) -> None:
    request = {"top_p": 0.5, "extra_body": {"service_tier": "flex"}}
    system = {"role": "system", "content": "Answer in JSON."}
    asked = prompt(system, user("hi"), tools=b"[]", json_only=True)
    await caller.think(
        responses,
        asked,
        temperature=0.2,
        max_completion_tokens=9,
        reasoning_effort="low",
        request=request,
    )
    body = bodies(responses)[0]
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.2, 0.5, 9)
    assert body["reasoning"] == {"effort": "low"} and body["service_tier"] == "flex"
    assert body["text"] == {"format": {"type": "json_object"}} and "tools" not in body
    assert responses.refusals == []


async def test_files_have_their_names_and_a_tools_image_stays_in_its_output(
    caller: Caller, responses: OpenAiResponses
) -> None:
    responses.script(Answer("", TWO[:1]))
    shown = {"role": "user", "content": [pdf()]}
    step = await caller.think(responses, prompt(shown))
    result = {"role": "tool", "tool_call_id": "call_1_0", "content": [image()]}
    await caller.think(responses, prompt(shown, assistant(step), result))
    sent = bodies(responses)[1]["input"]
    assert sent[0]["content"][0]["filename"] == "a.pdf"
    assert sent[-1]["output"][0]["type"] == "input_image"


async def test_a_refusal_is_the_answer(caller: Caller, responses: OpenAiResponses) -> None:
    responses.is_refusal = True
    responses.script(Answer("I cannot help with that."))
    assert (await caller.think(responses, prompt(user("hi")))).text == "I cannot help with that."
    assert "".join(caller.heard.texts) in ("", "I cannot help with that.")


async def test_a_filtered_or_failed_response_has_its_cause(
    caller: Caller, responses: OpenAiResponses
) -> None:
    responses.incomplete_reason = "content_filter"
    with pytest.raises(ModelFailed) as filtered:
        await caller.think(responses, prompt(user("hi")))
    assert filtered.value.cause == "filter"
    responses.failure = {"code": "server_error", "message": "The model broke."}
    with pytest.raises(ModelFailed, match="The model broke"):
        await caller.think(responses, prompt(user("hi")))
    responses.failure = {"code": "rate_limit_exceeded", "message": "Too much."}
    with pytest.raises(RateLimited):
        await caller.think(responses, prompt(user("hi")))
