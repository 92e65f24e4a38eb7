"""Gemini through its adapter: what it has and other APIs have not."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from choir_models.model import ModelFailed, ModelRequestRejected
from choir_testing.providers.gemini import FOREIGN_SIGNATURE, Gemini
from choir_testing.providers.provider import Answer, Call, ErrorFault
from choir_testing.providers.server import run_provider
from tests.service.models.conftest import Caller
from tests.service.models.history import (
    SYSTEM,
    TOOL_NAMES,
    assistant,
    image,
    prompt,
    results,
    user,
)

FIVE = tuple(Call(name, {"path": name}) for name in TOOL_NAMES)


@pytest.fixture
async def gemini() -> AsyncIterator[Gemini]:
    async with run_provider(Gemini()) as provider:
        yield provider


def bodies(provider: Gemini) -> list[Any]:
    return [request.body for request in provider.requests]


async def test_signed_parts_go_back_unchanged(caller: Caller, gemini: Gemini) -> None:
    gemini.script(Answer("I look.", FIVE), Answer("Done.", reasoning="hm"))
    messages = [SYSTEM, user("look")]
    step = await caller.think(gemini, prompt(*messages))
    messages += [assistant(step), *results(step)]
    done = await caller.think(gemini, prompt(*messages))
    await caller.think(gemini, prompt(*messages, assistant(done), user("and now?")))
    assert gemini.refusals == []
    contents = bodies(gemini)[-1]["contents"]
    assert contents[1]["parts"] == gemini.sent[0]
    assert [part["functionResponse"]["id"] for part in contents[2]["parts"]] == [
        f"fc1_{place}" for place in range(5)
    ]
    assert contents[3]["parts"] == gemini.sent[1]
    # the signature after a text stays in its own part
    assert [part["text"] for part in contents[3]["parts"]] == ["Done.", ""]
    body = bodies(gemini)[0]
    assert body["systemInstruction"] == {"parts": [{"text": "You are an agent."}]}
    declared = body["tools"][0]["functionDeclarations"][0]
    assert declared["parametersJsonSchema"]["properties"] == {"path": {"type": ["string", "null"]}}


async def test_the_beginning_of_the_body_stays_the_same_from_call_to_call(
    caller: Caller, gemini: Gemini
) -> None:
    gemini.script(Answer("", FIVE))
    note = {"role": "system", "content": "Running core jobs: none"}
    messages = [SYSTEM, user("look"), note]
    step = await caller.think(gemini, prompt(*messages))
    messages += [assistant(step), *results(step), note]
    await caller.think(gemini, prompt(*messages))
    await caller.think(gemini, prompt(*messages, user("go on")))
    first, second, third = (request.raw for request in gemini.requests)
    # without the brackets that end the body, and of the last message that grows
    assert second.startswith(first.rstrip(b"]} "))
    assert third.startswith(second.rstrip(b"]} "))


@pytest.mark.parametrize(
    ("model", "signature"), [("gemini-3-fake", FOREIGN_SIGNATURE), ("gemini-2.5-pro", None)]
)
async def test_calls_of_another_model_have_the_documented_signature(
    caller: Caller, model: str, signature: str | None
) -> None:
    async with run_provider(Gemini(model=model)) as provider:
        provider.script(Answer("", FIVE))
        step = await caller.think(provider, prompt(user("look")))
        foreign = {k: v for k, v in assistant(step).items() if k != "gemini"}
        await caller.think(provider, prompt(user("look"), foreign, *results(step), user("well?")))
        parts = bodies(provider)[-1]["contents"][1]["parts"]
        assert parts[0].get("thoughtSignature") == signature
        assert all("thoughtSignature" not in part for part in parts[1:])
        assert parts[0]["functionCall"]["id"] == "call_1_0"


async def test_a_tools_image_is_inside_its_response_or_beside_it_for_older_models(
    caller: Caller,
) -> None:
    for model in ("gemini-3-fake", "gemini-2.5-pro"):
        async with run_provider(Gemini(model=model)) as provider:
            provider.script(Answer("", FIVE[:2]))
            step = await caller.think(provider, prompt(user("look")))
            first, second = results(step)
            first["content"] = [{"type": "text", "text": '{"status":"success"}'}, image()]
            history = prompt(user("look"), assistant(step), first, second)
            await caller.think(provider, history)
            assert provider.refusals == []
            parts = bodies(provider)[-1]["contents"][-1]["parts"]
            responses = [part["functionResponse"] for part in parts[:2]]
            assert responses[0]["response"] == {"status": "success"}
            is_new = model == "gemini-3-fake"
            assert ("parts" in responses[0]) is is_new
            assert len(parts) == (2 if is_new else 3)


async def test_settings_become_generation_config(caller: Caller, gemini: Gemini) -> None:
    async def config(*, json_only: bool = False, **changes: object) -> Any:
        asked = prompt(user("hi"), tools=b"[]", json_only=json_only)
        await caller.think(gemini, asked, **changes)
        return bodies(gemini)[-1]["generationConfig"]

    assert await config() == {}
    assert await config(json_only=True) == {"responseMimeType": "application/json"}
    request = {"top_p": 0.5, "extra_body": {"generationConfig": {"seed": 7}}}
    changed = await config(temperature=0.2, max_completion_tokens=9, request=request)
    assert changed == {"temperature": 0.2, "topP": 0.5, "maxOutputTokens": 9, "seed": 7}
    assert await config(reasoning_effort="high") == {"thinkingConfig": {"thinkingLevel": "HIGH"}}
    changed = await config(reasoning_effort="high", thinking_budget=0)
    assert changed == {"thinkingConfig": {"thinkingBudget": 0}}
    with pytest.raises(ModelRequestRejected, match="thinking_level"):
        await config(reasoning_effort="enormous")


async def test_an_older_model_gets_a_thinking_budget(caller: Caller) -> None:
    async with run_provider(Gemini(model="gemini-2.5-flash")) as provider:
        await caller.think(provider, prompt(user("hi")), reasoning_effort="low")
        config = bodies(provider)[0]["generationConfig"]
        assert config == {"thinkingConfig": {"thinkingBudget": 1_024}}


async def test_an_answer_in_several_responses_is_put_together(
    caller: Caller, gemini: Gemini
) -> None:
    gemini.continuations = 2
    gemini.script(Answer("One, "), Answer("two, "), Answer("three."))
    completion = await caller.think(gemini, prompt(user("count")))
    assert completion.text == "One, two, three." and completion.finish_reason == "stop"
    assert completion.prompt_tokens == 3_000
    tokens = [body.get("continuationToken") for body in bodies(gemini)]
    assert tokens == [None, "go on 1", "go on 2"]


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "PROHIBITED_CONTENT", "SPII"])
async def test_a_blocked_answer_names_the_filter(
    caller: Caller, gemini: Gemini, reason: str
) -> None:
    gemini.finish_reason = reason
    with pytest.raises(ModelFailed, match=reason) as failure:
        await caller.think(gemini, prompt(user("hi")))
    assert failure.value.cause == "filter"


async def test_a_call_that_cannot_be_parsed_is_refused_and_the_model_is_told(
    caller: Caller, gemini: Gemini
) -> None:
    gemini.finish_reason = "MALFORMED_FUNCTION_CALL"
    gemini.script(Answer("x"))
    step = await caller.think(gemini, prompt(user("look")))
    gemini.finish_reason = ""
    assert [call.name for call in step.calls] == ["malformed_function_call"]
    assert "default_api" in step.calls[0].arguments
    message = assistant(step)
    # the agent sends an empty object instead of malformed arguments
    message["tool_calls"][0]["function"]["arguments"] = "{}"
    again = await caller.think(gemini, prompt(user("look"), message, *results(step)))
    assert again.text == "All is well."


async def test_a_daily_quota_is_final(caller: Caller, gemini: Gemini) -> None:
    gemini.quota_id = "GenerateRequestsPerDayPerProjectPerModel-FreeTier"
    gemini.script(ErrorFault("rate"))
    with pytest.raises(ModelFailed, match="today") as final:
        await caller.think(gemini, prompt(user("hi")))
    assert final.value.cause == "rate"


async def test_an_endpoint_may_name_the_version_of_the_api(caller: Caller, gemini: Gemini) -> None:
    await caller.think(gemini, prompt(user("hi")), endpoint=f"{gemini.endpoint}/v1beta")
    await caller.think(gemini, prompt(user("hi")))
    assert [request.path.split("/")[1] for request in gemini.requests] == ["v1beta", "v1"]
