"""Tools that a client of the OpenAI-compatible API offers and runs: with the official SDK."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from choir_common.wire.client_tools import CALL_TOOL, LIST_TOOL
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import HostToolRequest, HostToolResponse
from choir_common.wire.signals import UserMessageSignal
from choir_control.api_clients import client_tools
from tests.service.control.openai_world import OpenAIWorld, openai_world
from tests.service.control.world import World, until

SCHEMA: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "Look outside.", "parameters": SCHEMA},
}


@pytest.fixture
async def api(stopped: World) -> AsyncIterator[OpenAIWorld]:
    async with openai_world(stopped) as made:
        yield made


async def use(
    api: OpenAIWorld, message: UserMessageSignal, tool: str, call_id: str, **values: Any
) -> HostToolResponse:
    """Call a host tool as the agent does: again, until it has the result."""
    call: Any = {"tool_name": tool, "call_id": call_id, "input": values, "dm": message.dm}
    while True:
        answer = await api.agent.hand.call("EXECUTE_HOST_TOOL", HostToolRequest(**call))
        response = HostToolResponse.model_validate_json(answer)
        if response.output.get("state") != "open":
            return response


async def look_in_two_cities(api: OpenAIWorld, message: UserMessageSignal) -> str:
    listed = await use(api, message, LIST_TOOL, "list")
    unknown = await use(api, message, CALL_TOOL, f"x-{message.inbox_id}", name="delete")
    cities = await asyncio.gather(
        *(
            use(
                *(api, message, CALL_TOOL, f"{city}-{message.inbox_id}"),
                name="weather",
                arguments={"city": city},
            )
            for city in ("Rome", "Oslo")
        )
    )
    answers = [city.output.get("result") for city in cities]
    return json.dumps([listed.output["tools"], unknown.output["code"], answers])


def results(message: Any) -> list[Any]:
    """Return the messages that follow an answer with calls: the answer itself, and the results."""
    said = message.model_dump(exclude_none=True)
    degrees = {"Rome": "25 degrees", "Oslo": [{"type": "text", "text": "5 degrees"}]}
    return [
        {key: said[key] for key in ("role", "content", "tool_calls")},
        *(
            {
                "role": "tool",
                "tool_call_id": call.id,
                "content": degrees[json.loads(call.function.arguments)["city"]],
            }
            for call in message.tool_calls
        ),
    ]


async def test_the_agent_calls_the_sdks_tools_and_goes_on_with_their_results(
    api: OpenAIWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_tools, "KNOWN_WITHIN_S", 0.5)
    token = await api.add_client("coder", scopes=["chat", "tools"])
    api.agent.work = lambda message: look_in_two_cities(api, message)
    tools = [{"name": "weather", "description": "Look outside.", "parameters": SCHEMA}]
    expected = [tools, "not_found", ["25 degrees", "5 degrees"]]
    messages: Any = [{"role": "user", "content": "Where is it warm?"}]
    async with api.sdk(token) as client:
        create = client.chat.completions.create
        raw = await client.chat.completions.with_raw_response.create(
            model="main", messages=messages, tools=[TOOL]
        )
        [choice] = raw.parse().choices
        assert choice.finish_reason == "tool_calls" and "x-choir-notice" not in raw.headers
        assert choice.message.tool_calls is not None
        assert [call.function.name for call in choice.message.tool_calls] == ["weather"] * 2  # type: ignore[union-attr]
        whole = [*messages, *results(choice.message)]
        done = await create(model="main", messages=whole, tools=[TOOL])
        assert done.choices[0].finish_reason == "stop"
        assert json.loads(done.choices[0].message.content or "") == expected
        # a repetition, as after a lost connection
        again = await create(model="main", messages=whole, tools=[TOOL])
        assert again.choices[0].message.content == done.choices[0].message.content

        async with client.chat.completions.stream(
            model="main", messages=messages, tools=[TOOL]
        ) as stream:
            [streamed] = (await stream.get_final_completion()).choices
        assert streamed.finish_reason == "tool_calls"
        async with client.chat.completions.stream(
            model="main", messages=[*messages, *results(streamed.message)], tools=[TOOL]
        ) as stream:
            [last] = (await stream.get_final_completion()).choices
        assert json.loads(last.message.content or "") == expected

        wrong: Any = {"role": "tool", "tool_call_id": "in_1:call_1", "content": "1"}
        with pytest.raises(openai.BadRequestError, match="waits for a result"):
            await create(model="main", messages=[*messages, wrong], tools=[TOOL])
        bad: Any = {"type": "function", "function": {"name": "no spaces, please"}}
        with pytest.raises(openai.BadRequestError, match="tools"):
            await create(model="main", messages=messages, tools=[bad])
    assert api.agent.texts == ["Where is it warm?"] * 2


async def test_only_a_client_with_the_scope_gets_calls_and_only_while_it_waits(
    api: OpenAIWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_tools, "WAIT_S", 0.5)
    monkeypatch.setattr(client_tools, "TAKEN_WITHIN_S", 1.0)

    async def try_to_call(message: UserMessageSignal) -> str:
        listed = await use(api, message, LIST_TOOL, f"l-{message.inbox_id}")
        answer = await use(api, message, CALL_TOOL, f"c-{message.inbox_id}", name="weather")
        return f"{listed.status} {answer.output['code']}"

    api.agent.work = try_to_call
    messages: Any = [{"role": "user", "content": "hello"}]
    for scopes, tools, code in (
        (["chat"], [TOOL], "error conflict"),
        (["chat", "tools"], [], "success not_found"),
    ):
        token = await api.add_client(f"c{len(scopes)}", scopes=scopes)
        async with api.sdk(token) as client:
            done = await client.chat.completions.create(
                model="main", messages=messages, tools=tools or openai.omit
            )
        assert done.choices[0].message.content == code
    # nobody waits: the message comes from the conversation itself
    token = await api.add_client("c3", scopes=["chat", "tools"])
    sent = await api.world.post("/v1/dms/api.c3.main/messages", json={"text": "x"})
    assert sent.is_success

    async def is_answered() -> bool:
        history = (await api.world.get("/v1/dms/api.c3.main/messages")).json()
        return [it["text"] for it in history["messages"]] == ["success conflict"]

    await until(is_answered)
