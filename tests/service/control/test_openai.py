"""The OpenAI-compatible API, with the official SDK and with requests in the shapes of Open WebUI."""

import asyncio
import base64
import json
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest

from choir_common.http.client import make_client
from choir_control.api.openai.answers import TOOLS_NOTICE
from choir_control.api_clients.service import MAX_OPEN
from choir_control.conversations.inbox.answer_store import AnswerStore, TokenUsage
from tests.service.control.openai_world import CHAT, OpenAIWorld, ask, openai_world
from tests.service.control.world import World
from tests.support.shell import ChoirctlRunner

REQUESTS = json.loads((Path(__file__).parent / "open_webui_requests.json").read_text())
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(64)).decode()
DOCS = Path(__file__).parents[3] / "docs/openai.md"


@pytest.fixture
async def api(stopped: World) -> AsyncIterator[OpenAIWorld]:
    async with openai_world(stopped) as made:
        yield made


async def test_the_official_sdk_chats_streams_and_lists_agents(api: OpenAIWorld) -> None:
    shell = ChoirctlRunner(api.world.home)
    added = await asyncio.to_thread(
        lambda: shell.data("client", "add", "sdk", "--agent", "main", "--scope", "chat")
    )
    assert added["base_url"] == f"{api.world.tcp}/openai/v1"
    async with api.sdk(added["token"]) as client:
        assert [it.id async for it in await client.models.list()] == ["main"]
        assert (await client.models.retrieve("main")).owned_by == "choir"

        earlier = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "one"}]
        messages: Any = [
            *earlier,
            {"role": "assistant", "content": "1"},
            {"role": "user", "content": "two"},
        ]
        done = await client.chat.completions.create(model="main", messages=messages, temperature=0)
        assert done.choices[0].message.content == "echo: two"
        assert done.choices[0].finish_reason == "stop"
        assert done.usage is not None and done.usage.total_tokens == 18
        assert api.agent.texts == ["two"], "the agent has the history itself"
        assert api.agent.messages[0].dm == "api.sdk.main"

        stream = await client.chat.completions.create(
            model="main",
            messages=[{"role": "user", "content": "a longer text, please"}],
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = [chunk async for chunk in stream]
    pieces = [it.choices[0].delta.content or "" for it in chunks if it.choices]
    assert "".join(pieces) == "echo: a longer text, please"
    assert len([it for it in pieces if it]) > 1, "as it is written"
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 7


async def test_the_official_sdk_uses_responses_and_goes_on_in_the_conversation_of_an_earlier_one(
    api: OpenAIWorld,
) -> None:
    token, stranger = await api.add_client("sdk"), await api.add_client("stranger")
    async with api.sdk(token) as client:
        first = await client.responses.create(model="main", input="one", instructions="Be short.")
        assert (first.status, first.output_text) == ("completed", "echo: one")
        assert first.usage is not None and first.usage.total_tokens == 18
        parts: Any = [
            {"type": "input_text", "text": "a longer text, please"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"},
            {
                "type": "input_file",
                "filename": "a.txt",
                "file_data": "data:text/plain;base64,aGk=",
            },
        ]
        stream = await client.responses.create(
            model="main",
            input=[{"role": "user", "content": parts}],
            previous_response_id=first.id,
            stream=True,
        )
        events = [event async for event in stream]
        deltas = [it.delta for it in events if it.type == "response.output_text.delta"]
        assert "".join(deltas) == "echo: a longer text, please"
        assert [it.sequence_number for it in events] == list(range(len(events)))
        assert events[-1].type == "response.completed"
        assert events[-1].response.output_text == "echo: a longer text, please"
        assert [it.dm for it in api.agent.messages] == ["api.sdk.main"] * 2
        assert [it.kind for it in api.agent.messages[1].attachments] == ["photo", "document"]

        result: Any = [{"type": "function_call_output", "call_id": "c", "output": "1"}]
        with pytest.raises(openai.BadRequestError, match="calls no tools of yours"):
            await client.responses.create(model="main", input=result)
        api.agent.kind = "error"
        failing = await client.responses.create(model="main", input="three", stream=True)
        assert [event async for event in failing][-1].type == "response.failed"
    async with api.sdk(stranger) as client:
        with pytest.raises(openai.BadRequestError) as foreign:
            await client.responses.create(
                model="main", input="mine?", previous_response_id=first.id
            )
    assert foreign.value.code == "previous_response_not_found"
    assert len(api.agent.texts) == 3


async def test_errors_have_the_shape_that_the_sdk_expects(api: OpenAIWorld) -> None:
    token = await api.add_client("sdk")
    async with api.sdk(token, max_retries=2) as client:
        create = client.chat.completions.create
        messages: Any = [{"role": "user", "content": "hello"}]
        with pytest.raises(openai.NotFoundError) as missing:
            await create(model="gpt-4o", messages=messages)
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")
        tool: Any = {"type": "function", "function": {"name": "f", "parameters": {}}}
        with pytest.raises(openai.BadRequestError) as forced:
            await create(model="main", messages=messages, tools=[tool], tool_choice="required")
        assert forced.value.param == "tool_choice"
        with pytest.raises(openai.InternalServerError) as stopped:
            await client.with_options(max_retries=0).chat.completions.create(
                model="other", messages=messages
            )
        assert stopped.value.code == "unavailable" and "choirctl agent start" in str(stopped.value)
        assert api.agent.texts == []

        # optional tools are left to the agent; the failure of a turn is not repeated
        api.agent.kind = "error"
        with pytest.raises(openai.InternalServerError, match="echo: hello"):
            await create(model="main", messages=messages, tools=[tool])
        stream = await create(model="main", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="echo: hello"):
            _ = [chunk async for chunk in stream]
        assert len(api.agent.texts) == 2
    async with api.sdk("choir-sdk.wrong") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.models.list()
    assert refused.value.code == "invalid_api_key"


async def test_open_webui_sends_the_history_and_asks_for_titles_and_the_agent_sees_one_message(
    api: OpenAIWorld,
) -> None:
    token = await api.add_client("open-webui")
    for name, expected in (
        ("title", '{"title": "What is the capital of France?"}'),
        ("tags", '{"tags": []}'),
        ("follow_ups", '{"follow_ups": []}'),
        ("queries", '{"queries": []}'),
        ("image_prompt", '{"prompt": "Draw it at night."}'),
        ("autocomplete", '{"text": ""}'),
        ("emoji", "\N{SLIGHTLY SMILING FACE}"),
        ("tool_choice", '{"tool_calls": []}'),
    ):
        answer = await api.post(token, REQUESTS[name])
        assert answer.json()["choices"][0]["message"]["content"] == expected
    assert api.agent.texts == []
    answer = await api.post(token, REQUESTS["chat"])
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert api.agent.texts == ["And of Spain?"]
    # documents come inside of a prompt that begins like a request for a title
    await api.post(token, REQUESTS["documents"])
    assert api.agent.texts[1].startswith("### Task:")


async def test_open_webui_lists_models_sends_pictures_and_tools_and_stops_in_the_middle(
    api: OpenAIWorld,
) -> None:
    token = await api.add_client("open-webui")
    user = {
        "X-OpenWebUI-User-Name": "Ada%20Lovelace",
        "X-OpenWebUI-User-Id": "u-1",
        "X-OpenWebUI-User-Email": "ada@example.org",
        "X-OpenWebUI-User-Role": "admin",
        "X-OpenWebUI-Chat-Id": "c-1",
    }
    headers = {"Authorization": f"Bearer {token}", **user}
    async with make_client(api.world.tcp, timeout_s=120) as client:
        listed = (await client.get("/openai/v1/models", headers=headers)).json()
        assert [it["id"] for it in listed["data"]] == ["main", "never", "other"]

        seen = await api.post(token, REQUESTS["picture"], **user)
        assert '"completion_tokens":7' in seen.text and "x-choir-notice" not in seen.headers
        [message] = api.agent.messages
        assert (message.text, message.attachments[0].mime) == ("What is in it?", "image/png")
        assert message.sender is None or "Ada" not in message.sender.name, "headers prove nothing"

        answered = await api.post(token, REQUESTS["native_tools"], **user)
        assert answered.headers["x-choir-notice"].startswith("tools-ignored")
        assert '"finish_reason":"stop"' in answered.text and "tool_calls" not in answered.text

        # the stop button closes the connection; the client's place is free for the next message
        for _ in range(MAX_OPEN + 1):
            body = {"json": REQUESTS["chat"], "headers": headers}
            async with client.stream("POST", CHAT, **body) as stopping:
                assert stopping.status_code == 200, await stopping.aread()
                await anext(stopping.aiter_bytes())
    assert (await api.post(token, REQUESTS["chat"], **user)).text.endswith("data: [DONE]\n\n")


async def test_the_usage_of_a_stream_is_read_only_if_the_request_asks_for_it(
    api: OpenAIWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read_usage = AnswerStore.read_usage

    async def count_reads(store: AnswerStore, inbox_id: str) -> TokenUsage | None:
        reads.append(inbox_id)
        return await read_usage(store, inbox_id)

    monkeypatch.setattr(AnswerStore, "read_usage", count_reads)
    token = await api.add_client("app")
    plain = await api.post(token, ask("hello", stream=True))
    assert plain.text.endswith("data: [DONE]\n\n") and '"usage":null' in plain.text
    assert reads == []
    asked = await api.post(token, ask("hello", stream=True, stream_options={"include_usage": True}))
    assert '"prompt_tokens":11' in asked.text and len(reads) == 1


async def test_the_sdk_sends_tools_and_the_agent_answers_without_them(api: OpenAIWorld) -> None:
    token = await api.add_client("sdk")
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool: Any = {
        "type": "function",
        "function": {"name": "weather", "parameters": schema, "strict": True},
    }
    messages: Any = [{"role": "user", "content": "hello"}]
    async with api.sdk(token) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="main", messages=messages, tools=[tool], tool_choice="auto"
        )
        assert raw.headers["x-choir-notice"] == TOOLS_NOTICE
        choice = raw.parse().choices[0]
        assert (choice.finish_reason, choice.message.tool_calls) == ("stop", None)
        async with client.chat.completions.stream(
            model="main", messages=messages, tools=[tool], tool_choice="none"
        ) as stream:
            assert (await stream.get_final_completion()).choices[0].message.content == "echo: hello"
        with pytest.raises(openai.BadRequestError, match="MCP server"):
            await client.chat.completions.create(
                model="main", messages=messages, tools=[tool], tool_choice="required"
            )
        result: Any = {"role": "tool", "tool_call_id": "call_1", "content": "12 degrees"}
        with pytest.raises(openai.BadRequestError, match="no results of them"):
            await client.chat.completions.create(model="main", messages=[*messages, result])


async def test_pictures_and_files_reach_the_workspace_and_addresses_are_not_fetched(
    api: OpenAIWorld,
) -> None:
    token = await api.add_client("app")
    url = f"data:image/png;base64,{PNG}"
    parts = [
        {"type": "text", "text": "what is it?"},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,aGk="}},
    ]
    body = {"model": "main", "messages": [{"role": "user", "content": parts}]}
    assert (await api.post(token, body)).status_code == 200
    [message] = api.agent.messages
    assert message.text == "what is it?"
    assert [(it.kind, it.mime) for it in message.attachments] == [
        ("photo", "image/png"),
        ("document", "text/plain"),
    ]
    root = api.world.home / "workspaces/main"
    assert (root / message.attachments[1].path).read_text() == "hi"
    parts[1]["image_url"] = {"url": "http://127.0.0.1:9400/v1/status"}
    refused = await api.post(token, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "messages[-1].content[1].image_url.url"


async def test_a_repeated_request_reaches_the_agent_once(api: OpenAIWorld) -> None:
    token = await api.add_client("app")
    first = await api.post(token, ask("hello"))
    again = await api.post(token, ask("hello"), **{"x-stainless-retry-count": "1"})
    assert api.agent.texts == ["hello"]
    assert again.json()["choices"] == first.json()["choices"]
    assert again.json()["id"] == first.json()["id"]
    # no retry: the user says it twice
    await api.post(token, ask("hello"))
    assert api.agent.texts == ["hello"] * 2
    keyed = {"Idempotency-Key": "key 1"}
    assert (await api.post(token, ask("keyed"), **keyed)).status_code == 200
    assert (await api.post(token, ask("keyed"), **keyed)).status_code == 200
    conflict = await api.post(token, ask("something else"), **keyed)
    assert (conflict.status_code, conflict.json()["error"]["code"]) == (409, "conflict")
    assert api.agent.texts == ["hello", "hello", "keyed"]


async def test_a_client_that_goes_away_gets_the_answer_later(api: OpenAIWorld) -> None:
    token = await api.add_client("app")
    api.agent.may_answer.clear()
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        make_client(api.world.tcp, timeout_s=60) as client,
        client.stream("POST", CHAT, json=ask("slow", stream=True), headers=headers) as answer,
    ):
        assert answer.status_code == 200
        dm = answer.headers["x-choir-conversation"]
        await anext(answer.aiter_bytes())
    body = json.dumps(ask("slow", n=1)).encode()
    with pytest.raises(httpx2.ReadTimeout):
        async with make_client(api.world.tcp, timeout_s=2) as client:
            await client.post(CHAT, content=body, headers=headers)
    api.agent.may_answer.set()
    done = await api.post(token, body, **{"x-stainless-retry-count": "2"})
    assert done.json()["choices"][0]["message"]["content"] == "echo: slow"
    history = (await api.world.get(f"/v1/dms/{dm}/messages")).json()["messages"]
    assert [it["text"] for it in history] == ["echo: slow"] * 2
    assert api.agent.texts == ["slow"] * 2


@pytest.mark.nightly  # the tests above make its calls with the same SDK
async def test_the_program_of_the_page_runs(api: OpenAIWorld) -> None:
    [program] = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    token = await api.add_client("notebook")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program),
        env={
            **os.environ,
            "OPENAI_API_KEY": token,
            "OPENAI_BASE_URL": f"{api.world.tcp}/openai/v1",
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 300)
    assert process.returncode == 0, err.decode()
    assert out.decode().splitlines() == [
        "main never other",
        "echo: What is new?",
        "echo: Tell me more.",
    ]


async def test_a_new_token_replaces_the_old_one_until_it_is_revoked(api: OpenAIWorld) -> None:
    token = await api.add_client("app")
    renewed = await api.add_client("app")
    assert (await api.post(token, ask("hello"))).status_code == 401
    assert (await api.post(renewed, ask("hello"))).status_code == 200
    assert api.agent.messages[0].dm == "api.app.main", "the conversation goes on"
    [digest] = await api.world.database.fetch("SELECT digest FROM choir_control.api_clients")
    assert len(digest["digest"]) == 32

    shell = ChoirctlRunner(api.world.home)
    [listed] = await asyncio.to_thread(lambda: shell.data("client", "list"))
    assert (listed["name"], listed["agents"]) == ("app", []) and listed["last_used_at"]
    assert "token" not in listed
    await asyncio.to_thread(lambda: shell.succeeds("client", "revoke", "app"))
    assert (await api.world.get("/v1/clients")).json()["items"] == []
    assert (await api.post(renewed, ask("hello"))).status_code == 401
    await asyncio.to_thread(lambda: shell.fails(3, "client", "revoke", "app"))
