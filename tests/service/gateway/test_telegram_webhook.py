"""A bot whose updates Telegram brings: stored before they are confirmed, and only with the secret."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx2
import pytest

from choir_common.errors import Unavailable
from choir_common.http.transport import make_client
from choir_common.testing.telegram import FakeTelegram
from choir_common.wire.messages import DmBinding, GatewayBinding, WebhookBinding
from choir_local.nats import EmbeddedNats
from tests.service.gateway.conftest import MAIN_TOKEN
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess, make_process

OPERATOR, SECRET = "operator-token-of-the-test", "hook_secret-1"
HEADER = "X-Telegram-Bot-Api-Secret-Token"


@contextlib.asynccontextmanager
async def hooked(
    nats: EmbeddedNats, control: ControlStandIn, telegram: FakeTelegram
) -> AsyncIterator[ServiceProcess]:
    """Run a gateway on TCP whose one bot has a webhook."""
    port = free_port()
    hook = WebhookBinding(url=f"http://127.0.0.1:{port}/telegram/hooked", secret="hook")
    bot = GatewayBinding(
        name="hooked", type="telegram", secret="token", api_url=telegram.api_url, webhook=hook
    )
    alice = DmBinding(name="alice", gateway="hooked", user_id="7", admin=True)
    control.table = channel_table(bot, alice)
    env = {"CHOIR_GATEWAY_HTTP": f"127.0.0.1:{port}"}
    async with make_process("choir_gateway", nats.url, env) as process:
        secrets = {"token": MAIN_TOKEN, "hook": SECRET}
        process.secrets = {"operator_token": OPERATOR, "secrets": secrets}
        process.address = f"http://127.0.0.1:{port}"
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        for secret in (MAIN_TOKEN, SECRET, OPERATOR):
            assert secret not in process.log


@pytest.fixture
async def gateway(
    nats: EmbeddedNats, control: ControlStandIn, telegram: FakeTelegram
) -> AsyncIterator[ServiceProcess]:
    async with hooked(nats, control, telegram) as process:
        yield process


async def post(gateway: ServiceProcess, secret: str | None, body: str, bot: str = "hooked") -> int:
    headers = {HEADER: secret} if secret is not None else {}
    async with make_client(gateway.endpoint) as client:
        answer = await client.post(f"/telegram/{bot}", content=body, headers=headers)
        return answer.status_code


async def get_file(gateway: ServiceProcess, ref: str, token: str = OPERATOR) -> httpx2.Response:
    async with make_client(gateway.endpoint) as client:
        headers = {"Authorization": f"Bearer {token}"}
        return await client.get("/v1/files/hooked", params={"ref": ref}, headers=headers)


async def test_what_is_brought_is_stored_in_order_before_it_is_confirmed(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    control.refusals = [Unavailable(), Unavailable()]
    updates = [await alice.says(str(number)) for number in range(5)]
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
    await alice.until_confirmed(await alice.says("polled"), timeout=60)
    assert [message.text for message in control.inbox.values()] == ["polled"]
    assert await post(gateway, SECRET, "{}") == 404


async def test_control_gets_a_users_file_through_the_gateways_own_door(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    content = bytes(range(256)) * 1000
    alice = telegram.user(7, MAIN_TOKEN)
    await alice.until_confirmed(await alice.sends_file("document", "a.bin", content), timeout=60)
    (message,) = control.inbox.values()
    (attachment,) = message.attachments
    assert (await get_file(gateway, attachment.ref)).content == content
    assert (await get_file(gateway, attachment.ref, "guessed")).status_code == 401
    telegram.bot(MAIN_TOKEN).forget_files()
    assert (await get_file(gateway, attachment.ref)).status_code == 404
