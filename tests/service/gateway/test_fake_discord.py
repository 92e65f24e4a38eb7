"""The fake Discord refuses what Discord's documentation refuses."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import WSMsgType

from choir_common.wire.model import JsonObject
from choir_testing.discord import FakeDiscord, FakeDiscordUser, run_fake_discord

TOKEN = "fake.secret"
AGENT = "DiscordBot (https://example.com, 1)"
DIRECT_MESSAGES = 1 << 12
PROPERTIES: JsonObject = {"os": "linux", "browser": "test", "device": "test"}


@pytest.fixture
async def fake() -> AsyncIterator[FakeDiscord]:
    async with run_fake_discord() as discord:
        discord.user(7, TOKEN)
        yield discord


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as made:
        yield made


async def call(
    client: aiohttp.ClientSession,
    fake: FakeDiscord,
    method: str,
    path: str,
    body: JsonObject | None = None,
    **headers: str,
) -> tuple[int, int]:
    """Return the status and Discord's code of a call."""
    given = {"Authorization": f"Bot {TOKEN}", "User-Agent": AGENT} | headers
    async with client.request(method, fake.api_url + path, json=body, headers=given) as response:
        answer = await response.json() if response.status != 204 else {}
        code = answer.get("code", 0) if isinstance(answer, dict) else 0
        return response.status, code


def messages_path(user: FakeDiscordUser) -> str:
    return f"/channels/{user.channel.channel_id}/messages"


async def test_a_call_needs_the_token_and_the_agent(
    fake: FakeDiscord, client: aiohttp.ClientSession
) -> None:
    assert (await call(client, fake, "GET", "/users/@me"))[0] == 200
    assert (await call(client, fake, "GET", "/users/@me", Authorization=TOKEN))[0] == 401
    assert (await call(client, fake, "GET", "/users/@me", **{"User-Agent": "curl"}))[0] == 403


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"content": "x" * 2000}, (200, 0)),
        ({"content": "x" * 2001}, (400, 50035)),
        ({"content": ""}, (400, 50006)),
        ({"content": "x", "nonce": "n" * 26}, (400, 50035)),
        ({"content": "x", "flags": 1 << 6}, (400, 50035)),
        ({"content": "x", "message_reference": {"message_id": "5"}}, (400, 50035)),
        ({"content": "x", "attachments": [{"id": 0, "filename": "a"}]}, (400, 50146)),
        ({"content": "x", "allowed_mentions": {"parse": ["all"]}}, (400, 50035)),
        ({"content": "x", "components": [{"type": 1, "components": []}]}, (400, 50035)),
    ],
)
async def test_a_message_obeys_the_documented_limits(
    fake: FakeDiscord,
    client: aiohttp.ClientSession,
    body: JsonObject,
    expected: tuple[int, int],
) -> None:
    path = messages_path(fake.user(7, TOKEN))
    assert await call(client, fake, "POST", path, body) == expected


@pytest.mark.parametrize("custom_ids", [("same", "same"), ("x" * 101, "y"), tuple("abcdef")])
async def test_buttons_obey_the_documented_limits(
    fake: FakeDiscord, client: aiohttp.ClientSession, custom_ids: tuple[str, ...]
) -> None:
    row: JsonObject = {
        "type": 1,
        "components": [{"type": 2, "style": 2, "label": "b", "custom_id": it} for it in custom_ids],
    }
    body: JsonObject = {"content": "x", "components": [row]}
    path = messages_path(fake.user(7, TOKEN))
    assert await call(client, fake, "POST", path, body) == (400, 50035)


async def test_an_enforced_nonce_sends_once(
    fake: FakeDiscord, client: aiohttp.ClientSession
) -> None:
    user = fake.user(7, TOKEN)
    for enforce in (False, True, True):
        body: JsonObject = {"content": "x", "nonce": "n1", "enforce_nonce": enforce}
        assert (await call(client, fake, "POST", messages_path(user), body))[0] == 200
    assert user.channel.bot_texts() == ["x"]
    body = {"content": "x", "nonce": "n1"}
    await call(client, fake, "POST", messages_path(user), body)
    assert user.channel.bot_texts() == ["x", "x"]


async def test_unknown_and_foreign_things_are_refused(
    fake: FakeDiscord, client: aiohttp.ClientSession
) -> None:
    user = fake.user(7, TOKEN)
    sent = await user.send("mine")
    mine = f"{messages_path(user)}/{sent.message_id}"
    assert await call(client, fake, "PATCH", mine, {"content": "x"}) == (403, 50005)
    assert await call(client, fake, "GET", f"{messages_path(user)}/5") == (404, 10008)
    assert await call(client, fake, "GET", "/channels/5/messages") == (404, 10003)
    assert await call(client, fake, "GET", f"{messages_path(user)}?limit=101") == (400, 50035)
    stranger: JsonObject = {"recipient_id": "99"}
    assert await call(client, fake, "POST", "/users/@me/channels", stranger) == (400, 50033)
    user.block_bot()
    assert await call(client, fake, "POST", messages_path(user), {"content": "x"}) == (403, 50007)


async def test_an_interaction_is_answered_once_by_its_own_token(
    fake: FakeDiscord, client: aiohttp.ClientSession
) -> None:
    user = fake.user(7, TOKEN)
    pending = await user.forge_press(await user.send("x"), "data")
    (token,) = fake.bot(TOKEN).interactions
    path = f"/interactions/{pending.interaction_id}/{token}/callback"
    webhook = f"/webhooks/{fake.bot(TOKEN).user_id}/{token}"
    ephemeral: JsonObject = {"content": "done", "flags": 64}
    assert await call(client, fake, "POST", webhook, ephemeral) == (404, 10015)
    assert await call(client, fake, "POST", path.replace(token, "x"), {"type": 6}) == (404, 10062)
    assert await call(client, fake, "POST", path, {"type": 1}) == (400, 50035)
    assert await call(client, fake, "POST", path, {"type": 6}) == (204, 0)
    assert await call(client, fake, "POST", path, {"type": 6}) == (400, 40060)
    assert await call(client, fake, "POST", webhook, ephemeral) == (200, 0)


class Gateway:
    """A client of the gateway without compression."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

    async def send(self, op: int, data: object) -> None:
        await self.socket.send_str(json.dumps({"op": op, "d": data}))

    async def receive(self) -> JsonObject:
        async with asyncio.timeout(60):
            message = await self.socket.receive()
        assert message.type is WSMsgType.TEXT, message
        payload: JsonObject = json.loads(message.data)
        return payload

    async def receive_close(self) -> int | None:
        async with asyncio.timeout(60):
            while (await self.socket.receive()).type is WSMsgType.TEXT:
                continue
        return self.socket.close_code

    async def identify(self, intents: int = DIRECT_MESSAGES, token: str = TOKEN) -> None:
        data = {"token": token, "intents": intents, "properties": PROPERTIES}
        await self.send(2, data)


@pytest.fixture
async def gateway(fake: FakeDiscord, client: aiohttp.ClientSession) -> AsyncIterator[Gateway]:
    async with client.ws_connect(f"{fake.origin}/gateway?v=10&encoding=json") as socket:
        made = Gateway(socket)
        assert (await made.receive())["op"] == 10
        yield made


async def test_a_session_gets_its_events_and_acknowledgements(
    fake: FakeDiscord, gateway: Gateway
) -> None:
    await gateway.identify()
    ready = await gateway.receive()
    assert (ready["t"], ready["s"]) == ("READY", 1)
    await fake.user(7, TOKEN).send("hello")
    event = await gateway.receive()
    assert (event["t"], event["s"]) == ("MESSAGE_CREATE", 2)
    await gateway.send(1, 2)
    assert (await gateway.receive())["op"] == 11


async def test_a_session_without_the_intent_gets_no_messages(
    fake: FakeDiscord, gateway: Gateway
) -> None:
    await gateway.identify(intents=1)
    await gateway.receive()
    await fake.user(7, TOKEN).send("hello")
    await gateway.send(1, 1)
    assert (await gateway.receive())["op"] == 11


@pytest.mark.parametrize(
    ("op", "data", "code"),
    [
        (2, {"token": "wrong", "intents": 1, "properties": PROPERTIES}, 4004),
        (2, {"token": TOKEN, "intents": 1 << 15, "properties": PROPERTIES}, 4014),
        (2, {"token": TOKEN, "intents": 1 << 40, "properties": PROPERTIES}, 4013),
        (2, {"token": TOKEN, "intents": 1, "properties": {}}, 4002),
        (3, {}, 4003),
        (99, {}, 4001),
    ],
)
async def test_a_wrong_payload_closes_the_connection(
    gateway: Gateway, op: int, data: JsonObject, code: int
) -> None:
    await gateway.send(op, data)
    assert await gateway.receive_close() == code


async def test_a_second_identification_closes_the_connection(gateway: Gateway) -> None:
    await gateway.identify()
    await gateway.identify()
    assert await gateway.receive_close() == 4005


async def test_another_version_closes_the_connection(
    fake: FakeDiscord, client: aiohttp.ClientSession
) -> None:
    async with client.ws_connect(f"{fake.origin}/gateway?v=6&encoding=json") as socket:
        assert await Gateway(socket).receive_close() == 4012


async def test_a_resumed_session_repeats_the_events_since_a_number(
    fake: FakeDiscord, gateway: Gateway, client: aiohttp.ClientSession
) -> None:
    await gateway.identify()
    ready = (await gateway.receive())["d"]
    assert isinstance(ready, dict)
    await gateway.socket.close(code=4000)
    await fake.user(7, TOKEN).send("missed")
    async with client.ws_connect(f"{ready['resume_gateway_url']}?v=10&encoding=json") as socket:
        second = Gateway(socket)
        await second.receive()
        await second.send(6, {"token": TOKEN, "session_id": ready["session_id"], "seq": 1})
        assert [(await second.receive())["t"] for _ in range(2)] == ["MESSAGE_CREATE", "RESUMED"]


async def test_an_unknown_session_is_invalid(gateway: Gateway) -> None:
    await gateway.send(6, {"token": TOKEN, "session_id": "unknown", "seq": 1})
    answer = await gateway.receive()
    assert (answer["op"], answer["d"]) == (9, False)
