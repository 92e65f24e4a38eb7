"""Attacks on the OpenAI-compatible API: foreign conversations, agents and tokens, large bodies and floods."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from choir_common.http.client import make_client
from choir_control.api.openai.routes import MAX_BODY
from choir_control.api_clients.service import MAX_OPEN, REQUESTS_PER_MINUTE
from tests.security.control.test_slow_and_large import Raw
from tests.service.control.openai_world import CHAT, OpenAIWorld, ask, openai_world
from tests.service.control.world import OPERATOR_TOKEN, World, until

HEADER = "X-Choir-Conversation"


@pytest.fixture
async def api(stopped: World) -> AsyncIterator[OpenAIWorld]:
    """A choird with an owner at `console` and a member at `second`, who has a client."""
    async with openai_world(stopped, ada="owner", bob="member") as made:
        yield made


async def test_a_client_reaches_the_conversations_of_its_person_and_agents_only(
    api: OpenAIWorld,
) -> None:
    bobs = await api.add_client("bobs", person="bob", agents=["main"])
    adas = await api.add_client("adas", person="ada")
    for dm in ("console", "api.adas.main", "api.adas.other", "second", "nobody", "../console", ""):
        refused = await api.post(bobs, ask("hello"), **{HEADER: dm})
        assert refused.status_code == 404, dm
        assert set(refused.json()) == {"error"}
    for model in ("other", "api.bobs.main", "main/../other", "x" * 10_000):
        refused = await api.post(bobs, ask("hello", model=model))
        assert refused.json()["error"]["code"] == "model_not_found"
        assert "never" not in refused.text, "names of other agents are not shown"
    assert api.agent.texts == []
    allowed = await api.post(adas, ask("from ada"), **{HEADER: "console"})
    assert allowed.status_code == 200 and allowed.headers[HEADER] == "console"

    # the rights of a member: commands of admins are refused
    said = (await api.post(bobs, ask("/stop"))).json()["choices"][0]["message"]["content"]
    assert "for admin conversations" in said
    assert (await api.post(bobs, ask("from bob"))).status_code == 200
    sender = api.agent.messages[-1].sender
    assert sender is not None and (sender.name, sender.role) == ("bob", "member")


async def test_tokens_open_only_what_they_are_for(api: OpenAIWorld) -> None:
    token = await api.add_client("bobs", person="bob")
    stored = await api.world.database.fetch(
        "SELECT c::text AS row FROM choir_control.api_clients c"
    )
    assert all(token.rpartition(".")[2] not in it["row"] for it in stored)
    wrong = ("", OPERATOR_TOKEN, "choir-bobs.", token[:-1], f"{token}x", "choir-nobody.x")
    for other in wrong:
        assert (await api.post(other or "x", ask("hello"))).status_code == 401
    async with make_client(api.world.tcp) as client:
        for path in ("/v1/status", "/v1/clients", "/v1/dms/second/messages", "/v1/agents"):
            answer = await client.get(path, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 401, path
        missing = await client.get("/openai/v1/files", headers={"Authorization": f"Bearer {token}"})
        assert missing.status_code == 404 and "error" in missing.json()
        assert (await client.post(CHAT, json=ask("hello"))).status_code == 401
    # the conversation of a revoked client is nobody else's
    for body, status in (
        ({"name": "bobs", "person": "ada"}, 409),
        ({"name": "other"}, 400),
        ({"name": "other", "person": "eve"}, 404),
        ({"name": "other", "person": "bob", "agents": ["nobody"]}, 404),
        ({"name": "a.b", "person": "bob"}, 400),
        ({"name": "other", "person": "bob", "scopes": ["admin"]}, 400),
    ):
        await api.world.delete("/v1/clients/bobs")
        assert (await api.world.post("/v1/clients", json=body)).status_code == status, body


async def test_revoking_a_token_ends_its_open_streams_at_once(api: OpenAIWorld) -> None:
    token = await api.add_client("bobs", person="bob")
    api.agent.may_answer.clear()
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        make_client(api.world.tcp, timeout_s=60) as client,
        client.stream("POST", CHAT, json=ask("slow", stream=True), headers=headers) as answer,
    ):
        pieces = answer.aiter_bytes()
        await anext(pieces)
        assert (await api.world.delete("/v1/clients/bobs")).status_code == 204
        rest = b"".join([piece async for piece in pieces])
    assert b"invalid_api_key" in rest and b"echo" not in rest
    assert (await api.post(token, ask("hello"))).status_code == 401
    api.agent.may_answer.set()


async def test_large_bodies_and_floods_are_refused_in_the_same_shape(api: OpenAIWorld) -> None:
    token = await api.add_client("bobs", person="bob")
    # the head alone: a client that still sends when the connection is closed may not see the answer
    async with Raw(api.world.settings.http_port) as raw:
        await raw.send(
            f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n".encode()
        )
        large = await raw.answer()
    assert large.startswith(b"HTTP/1.1 413") and b'"error"' in large and b'"too_large"' in large
    long = await api.post(token, ask("x" * 100_001))
    assert long.json()["error"]["param"] == "messages"
    for body in (
        b"",
        b"[]",
        b"{",
        b'{"model": 1}',
        b"\xff\xfe",
        json.dumps(ask("\ud800")).encode(),
    ):
        assert (await api.post(token, body)).status_code == 400, body
    assert api.agent.texts == []

    api.agent.may_answer.clear()
    waiting = [asyncio.create_task(api.post(token, ask(f"message {it}"))) for it in range(MAX_OPEN)]

    async def are_stored() -> bool:
        count = await api.world.database.fetchval(
            "SELECT count(*) FROM choir_control.inbox WHERE dm = 'api.bobs.main'"
        )
        return int(count) == MAX_OPEN

    await until(are_stored)
    assert "wait for answers" in (await api.post(token, ask("one more"))).text
    api.agent.may_answer.set()
    assert {(await it).status_code for it in waiting} == {200}
    for _ in range(20 * REQUESTS_PER_MINUTE):  # on a slow machine two are allowed again each second
        flood = await api.post(token, b"{}")
        if flood.status_code == 429:
            break
    assert flood.json()["error"]["type"] == "rate_limit_error" and flood.headers["retry-after"]
