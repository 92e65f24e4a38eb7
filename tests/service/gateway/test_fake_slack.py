"""The fake Slack refuses what Slack refuses, so that tests against it mean something."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from pydantic import JsonValue

from choir_common.wire.model import JsonObject
from choir_testing.slack import FakeSlack, run_fake_slack
from choir_testing.slack.server import APP_TOKEN, BOT_TOKEN


@pytest.fixture
async def fake() -> AsyncIterator[FakeSlack]:
    async with run_fake_slack() as running:
        running.user("U7")
        yield running


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def call(
    client: aiohttp.ClientSession,
    fake: FakeSlack,
    method: str,
    body: JsonObject | None = None,
    *,
    token: str = BOT_TOKEN,
    is_form: bool = False,
) -> JsonObject:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{fake.api_url}/{method}"
    form = {name: str(value) for name, value in (body or {}).items()}
    sending = (
        client.post(url, data=form, headers=headers)
        if is_form
        else client.post(url, json=body or {}, headers=headers)
    )
    async with sending as response:
        answer: JsonObject = await response.json()
        return answer


@pytest.mark.parametrize(
    ("method", "token", "error"),
    [
        ("auth.test", "", "not_authed"),
        ("auth.test", "xoxb-wrong", "invalid_auth"),
        ("auth.test", APP_TOKEN, "not_allowed_token_type"),
        ("apps.connections.open", BOT_TOKEN, "not_allowed_token_type"),
        ("chat.unknown", BOT_TOKEN, "unknown_method"),
    ],
)
async def test_each_method_needs_its_token(
    fake: FakeSlack, client: aiohttp.ClientSession, method: str, token: str, error: str
) -> None:
    assert (await call(client, fake, "auth.test"))["ok"] is True
    assert (await call(client, fake, method, token=token))["error"] == error


def section(text: str) -> JsonValue:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def button(action_id: str = "a", label: str = "b", value: str = "v") -> JsonValue:
    text: JsonValue = {"type": "plain_text", "text": label}
    return {"type": "button", "text": text, "action_id": action_id, "value": value}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"text": "x" * 40_000}, None),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({}, "no_text"),
        ({"text": "x", "content": "y"}, "invalid_arguments"),
        ({"text": "x", "thread_ts": "5.000001"}, "thread_not_found"),
        ({"blocks": [section("x" * 3000)]}, None),
        ({"blocks": [section("x" * 3001)]}, "invalid_blocks"),
        ({"blocks": [section("x")] * 51}, "invalid_blocks_format"),
        ({"blocks": [{"type": "rich_text", "elements": [{"type": "text"}]}]}, "invalid_blocks"),
        ({"blocks": [{"type": "actions", "elements": []}]}, "invalid_blocks"),
        ({"blocks": [{"type": "actions", "elements": [button(), button()]}]}, "invalid_blocks"),
        (
            {"blocks": [{"type": "actions", "elements": [button(label="x" * 76)]}]},
            "invalid_blocks",
        ),
    ],
)
async def test_a_message_obeys_the_documented_limits(
    fake: FakeSlack, client: aiohttp.ClientSession, body: JsonObject, error: str | None
) -> None:
    place: JsonObject = {"channel": fake.user("U7").channel.channel_id}
    answer = await call(client, fake, "chat.postMessage", {**place, **body})
    assert answer.get("error") == error


async def test_unknown_and_foreign_things_are_refused(
    fake: FakeSlack, client: aiohttp.ClientSession
) -> None:
    user = fake.user("U7")
    sent = await user.send("mine")
    place: JsonObject = {"channel": user.channel.channel_id}
    change: JsonObject = {**place, "ts": sent.ts, "text": "x"}
    assert (await call(client, fake, "chat.update", change))["error"] == "cant_update_message"
    assert (await call(client, fake, "conversations.history", place))[
        "error"
    ] == "invalid_arguments"
    assert (await call(client, fake, "conversations.history", place, is_form=True))["ok"] is True
    unknown: JsonObject = {"users": "U99"}
    assert (await call(client, fake, "conversations.open", unknown))["error"] == "user_not_found"
    fake.app.scopes.remove("chat:write")
    refusal = await call(client, fake, "chat.postMessage", {**place, "text": "x"})
    assert (refusal["error"], refusal["needed"]) == ("missing_scope", "chat:write")


async def test_a_channel_gets_one_message_a_second_after_a_burst(
    fake: FakeSlack, client: aiohttp.ClientSession
) -> None:
    limits = fake.limit_rate()
    body: JsonObject = {"channel": fake.user("U7").channel.channel_id, "text": "x"}
    answers = [await call(client, fake, "chat.postMessage", body) for _ in range(6)]
    assert answers[-1]["error"] == "ratelimited" and limits.refused >= 1


async def open_socket(fake: FakeSlack, client: aiohttp.ClientSession) -> str:
    answer = await call(client, fake, "apps.connections.open", token=APP_TOKEN, is_form=True)
    return str(answer["url"])


async def receive(socket: aiohttp.ClientWebSocketResponse) -> JsonObject:
    async with asyncio.timeout(60):
        body: JsonObject = json.loads(await socket.receive_str())
        return body


async def test_an_envelope_is_repeated_until_it_is_acknowledged(
    fake: FakeSlack, client: aiohttp.ClientSession
) -> None:
    fake.app.sockets.ack_timeout_s = 0.05
    async with client.ws_connect(await open_socket(fake, client)) as socket:
        assert (await receive(socket))["type"] == "hello"
        await fake.user("U7").send("hello")
        first, second = await receive(socket), await receive(socket)
        assert first["envelope_id"] == second["envelope_id"]
        assert (first["retry_attempt"], second["retry_attempt"]) == (0, 1)
        await socket.send_json({"envelope_id": first["envelope_id"]})
        async with asyncio.timeout(60):
            while fake.app.sockets.open_envelopes:
                await asyncio.sleep(0.01)


async def test_an_address_opens_one_connection(
    fake: FakeSlack, client: aiohttp.ClientSession
) -> None:
    url = await open_socket(fake, client)
    async with client.ws_connect(url) as socket:
        await receive(socket)
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await client.ws_connect(url)
