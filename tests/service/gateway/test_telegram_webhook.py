"""A bot whose updates Telegram brings: stored before they are confirmed, and only with the secret."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from choir_common.errors import Unavailable
from choir_common.http.client import make_client
from choir_common.http.listen import bind_tcp, serve
from choir_common.wire.activity import Card
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import DmBinding, GatewayBinding, WebhookBinding
from choir_local.nats import EmbeddedNats
from choir_testing.telegram import FakeTelegram
from tests.service.gateway.conftest import MAIN_TOKEN
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table
from tests.support.openapi import schemes, unresolved
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess, service_process

GATEWAY_TOKEN, SECRET = "gateway-token-of-the-test", "hook_secret-1"
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@contextlib.asynccontextmanager
async def hooked(
    nats: EmbeddedNats, control: ControlStandIn, telegram: FakeTelegram, control_at: str = ""
) -> AsyncIterator[ServiceProcess]:
    """Run a gateway on TCP whose one bot has a webhook."""
    port = free_port()
    hook = WebhookBinding(url=f"http://127.0.0.1:{port}/telegram/hooked", secret="hook")
    bot = GatewayBinding(
        name="hooked", type="telegram", secret="token", api_url=telegram.api_url, webhook=hook
    )
    alice = DmBinding(name="alice", gateway="hooked", user_id="7", admin=True)
    control.table = channel_table(bot, alice)
    env = {"CHOIR_GATEWAY_HTTP": f"127.0.0.1:{port}", "CHOIR_CONTROL_ENDPOINT": control_at}
    async with service_process("choir_gateway", nats.url, env) as process:
        secrets = {"token": MAIN_TOKEN, "hook": SECRET}
        process.secrets = {"gateway_token": GATEWAY_TOKEN, "secrets": secrets}
        process.address = f"http://127.0.0.1:{port}"
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        for secret in (MAIN_TOKEN, SECRET, GATEWAY_TOKEN):
            assert secret not in process.log


@pytest.fixture
async def gateway(
    nats: EmbeddedNats, control: ControlStandIn, telegram: FakeTelegram
) -> AsyncIterator[ServiceProcess]:
    async with hooked(nats, control, telegram) as process:
        yield process


@contextlib.asynccontextmanager
async def control_door(content: bytes) -> AsyncIterator[str]:
    """Serve a file as control does, to clients with the operator's token; return the address."""

    async def give(request: Request) -> Response:
        known = request.headers.get("authorization") == f"Bearer {GATEWAY_TOKEN}"
        return Response(content) if known else Response(status_code=401)

    app = Starlette(routes=[Route("/v1/outbox/{outbox_id}/files/{ref}", give)])
    listener, closed = bind_tcp("127.0.0.1", 0, "test"), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, [listener], closed))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        closed.set()


async def post(gateway: ServiceProcess, secret: str | None, body: str, bot: str = "hooked") -> int:
    headers = {HEADER: secret} if secret is not None else {}
    async with make_client(gateway.endpoint) as client:
        answer = await client.post(f"/telegram/{bot}", content=body, headers=headers)
        return answer.status_code


async def get_file(
    gateway: ServiceProcess, ref: str, token: str = GATEWAY_TOKEN
) -> httpx2.Response:
    async with make_client(gateway.endpoint) as client:
        headers = {"Authorization": f"Bearer {token}"}
        return await client.get("/v1/files/hooked", params={"ref": ref}, headers=headers)


async def test_what_is_brought_is_stored_in_order_before_it_is_confirmed(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    control.refusals = [Unavailable(), Unavailable()]
    updates = [await alice.send(str(number)) for number in range(5)]
    await alice.until_confirmed(updates[-1], timeout=60)
    assert [message.text for message in control.inbox.values()] == ["0", "1", "2", "3", "4"]
    assert telegram.bot(MAIN_TOKEN).webhook.kinds == ("message", "edited_message", "callback_query")


async def test_only_who_knows_the_secret_is_heard(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    body = (
        '{"update_id": 1, "message": {"message_id": 1, "date": 1, "text": "forged",'
        ' "chat": {"id": 7, "type": "private"},'
        ' "from": {"id": 7, "is_bot": false, "first_name": "A"}}}'
    )
    assert await post(gateway, None, body) == 401
    assert await post(gateway, "hook_secret-2", body) == 401
    assert await post(gateway, SECRET, body, "another") == 404
    assert await post(gateway, SECRET, "no update") == 400
    assert control.arrivals == []
    assert await post(gateway, SECRET, body) == 200
    assert [message.text for message in control.arrivals] == ["forged"]


UPDATE = {
    "update_id": 1,
    "message": {
        "message_id": 1,
        "date": 1,
        "text": "hello",
        "chat": {"id": 7, "type": "private"},
        "from": {"id": 7, "is_bot": False, "first_name": "A"},
        "photo": [{"file_id": "f", "file_unique_id": "u", "width": 1, "height": 1}],
        "reply_to_message": {"message_id": 1, "date": 1, "chat": {"id": 7, "type": "private"}},
        "quote": {"text": "t", "position": 0},
        "entities": [{"type": "bold", "offset": 0, "length": 1}],
    },
}
PRESS = {
    "update_id": 2,
    "callback_query": {
        "id": "1",
        "from": {"id": 7, "is_bot": False, "first_name": "A"},
        "chat_instance": "1",
        "data": "a",
    },
}
ODD: tuple[object, ...] = (None, [], {}, "\ud800", True, -1.5, 2**70, [[{"id": []}]])


def bent(value: object) -> Iterator[object]:
    """Yield a JSON value with one of its places, at any depth, replaced by something odd."""
    yield from ODD
    match value:
        case dict():
            for key, inner in value.items():
                yield {other: value[other] for other in value if other != key}
                for changed in bent(inner):
                    yield {**value, key: changed}
        case list():
            for changed in bent(value[0]):
                yield [changed]


async def test_no_json_is_an_error_of_the_gateways_own(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    bodies = [json.dumps(each) for update in (UPDATE, PRESS) for each in bent(update)]
    deep = "[" * 100_000 + "]" * 100_000
    bodies += ["[]", "null", "5", '"x"', deep, f'{{"update_id": 1, "message": {deep}}}', "\udcff"]
    answers: dict[int, list[str]] = {}
    headers = {HEADER: SECRET}
    async with make_client(gateway.endpoint) as client:
        for body in bodies:
            content = body.encode("utf-8", "surrogateescape")
            answer = await client.post("/telegram/hooked", content=content, headers=headers)
            answers.setdefault(answer.status_code, []).append(body[:200])
    assert answers.keys() == {200, 400}, {code: found[:3] for code, found in answers.items()}
    good = {**UPDATE, "update_id": 3}
    assert await post(gateway, SECRET, json.dumps(good)) == 200
    assert control.arrivals[-1].update_id == "3"


async def test_the_api_document_says_what_each_door_asks_for(gateway: ServiceProcess) -> None:
    async with make_client(gateway.endpoint) as client:
        document = (await client.get("/openapi.json")).json()
    assert unresolved(document) == set()
    asked = schemes(document)
    assert asked.pop("/telegram/{gateway}") == {"webhookSecret"}
    assert asked.pop("/webhook/{gateway}") == {"webhookSignature"}
    assert asked.pop("/whatsapp/{gateway}") == {"metaSignature"}
    assert document["components"]["securitySchemes"]["webhookSecret"]["name"] == HEADER
    assert set(asked) == {it for it in document["paths"] if it.startswith(("/v1/", "/web/"))}
    assert all(names == {"gatewayToken"} for names in asked.values())


async def test_a_bot_that_loses_its_webhook_is_asked_again(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    (bot,) = [found for found in control.table.gateways if found.type == "telegram"]
    polled = bot.model_copy(update={"webhook": None})
    await control.change(channel_table(polled, *control.table.dms[1:]))
    alice = telegram.user(7, MAIN_TOKEN)
    async with asyncio.timeout(60):
        while telegram.bot(MAIN_TOKEN).webhook.url:
            await asyncio.sleep(0.05)
    await alice.until_confirmed(await alice.send("polled"), timeout=60)
    assert [message.text for message in control.inbox.values()] == ["polled"]
    assert await post(gateway, SECRET, "{}") == 404


async def test_control_gets_a_users_file_through_the_gateways_own_door(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    content = bytes(range(256)) * 1000
    alice = telegram.user(7, MAIN_TOKEN)
    await alice.until_confirmed(await alice.send_file("document", "a.bin", content), timeout=60)
    (message,) = control.inbox.values()
    (attachment,) = message.attachments
    assert (await get_file(gateway, attachment.ref)).content == content
    assert (await get_file(gateway, attachment.ref, "guessed")).status_code == 401
    telegram.bot(MAIN_TOKEN).forget_files()
    assert (await get_file(gateway, attachment.ref)).status_code == 404


async def test_an_agents_file_is_fetched_from_controls_door_and_a_card_is_shown(
    nats: EmbeddedNats, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    content = bytes(range(256)) * 1000
    alice = telegram.user(7, MAIN_TOKEN)
    async with control_door(content) as address, hooked(nats, control, telegram, address):
        file = Attachment(name="a.png", kind="photo", size=len(content), ref="0")
        message = control.keep("alice", "look").model_copy(update={"attachments": (file,)})
        assert (await control.deliver(message)).status == "delivered"
        heard = await alice.receive()
        assert (heard.file_kind, heard.file_bytes, heard.text) == ("photo", content, "look")
        await control.show("alice", Card(card_id="job", text="half done"))
        assert (await alice.receive(60)).text == "half done"
        async with asyncio.timeout(60):
            while not control.cards:
                await asyncio.sleep(0.02)
