"""The webhook of a WhatsApp number at a running gateway: signed, limited, stored before it is confirmed."""

import json
import time
from collections.abc import AsyncIterator

import pytest

from choir_common.errors import Unavailable
from choir_common.http.client import make_client
from choir_common.wire.messages import DmBinding, GatewayBinding, WhatsAppBinding
from choir_local.nats import EmbeddedNats
from choir_testing.whatsapp import FakeWhatsApp, FakeWhatsAppUser, run_fake_whatsapp
from choir_testing.whatsapp.server import sign
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess, service_process

TOKEN, APP_SECRET, VERIFY = "whatsapp-token-1", "whatsapp-app-secret-1", "whatsapp-verify-1"
NUMBER = "106540352242922"


@pytest.fixture
async def whatsapp() -> AsyncIterator[FakeWhatsApp]:
    async with run_fake_whatsapp() as fake:
        fake.number(NUMBER, token=TOKEN, app_secret=APP_SECRET)
        yield fake


@pytest.fixture
async def gateway(
    nats: EmbeddedNats, control: ControlStandIn, whatsapp: FakeWhatsApp
) -> AsyncIterator[ServiceProcess]:
    binding = WhatsAppBinding(phone_number_id=NUMBER, app_secret="app", verify_secret="verify")
    number = GatewayBinding(
        name="wa", type="whatsapp", secret="token", api_url=whatsapp.api_url, whatsapp=binding
    )
    incomplete = number.model_copy(
        update={"name": "half", "whatsapp": binding.model_copy(update={"app_secret": "missing"})}
    )
    alice = DmBinding(name="alice", gateway="wa", user_id="4917012345", admin=True)
    console = GatewayBinding(name="console", type="console", secret=None, api_url=None)
    control.table = channel_table(number, incomplete, console, alice)
    port = free_port()
    env = {"CHOIR_GATEWAY_HTTP": f"127.0.0.1:{port}"}
    async with service_process("choir_gateway", nats.url, env) as process:
        secrets = {"token": TOKEN, "app": APP_SECRET, "verify": VERIFY}
        process.secrets = {"gateway_token": "gateway-token-of-the-test", "secrets": secrets}
        process.address = f"http://127.0.0.1:{port}"
        await process.start()
        whatsapp.number(NUMBER).webhook_url = f"{process.address}/whatsapp/wa"
        yield process
        whatsapp.number(NUMBER).webhook_url = ""
        assert await process.stop() == 0, process.log
        for secret in (TOKEN, APP_SECRET, VERIFY):
            assert secret not in process.log


@pytest.fixture
def alice(whatsapp: FakeWhatsApp) -> FakeWhatsAppUser:
    return whatsapp.user("4917012345", whatsapp.number(NUMBER))


async def verify(
    gateway: ServiceProcess, query: dict[str, str], name: str = "wa"
) -> tuple[int, str]:
    async with make_client(gateway.endpoint) as client:
        answer = await client.get(f"/whatsapp/{name}", params=query)
        if answer.is_success:
            assert answer.headers["content-type"].startswith("text/plain")
        return answer.status_code, answer.text


async def post(
    gateway: ServiceProcess, body: bytes, headers: dict[str, str], name: str = "wa"
) -> int:
    async with make_client(gateway.endpoint) as client:
        answer = await client.post(f"/whatsapp/{name}", content=body, headers=headers)
        return answer.status_code


async def test_the_address_is_confirmed_to_whom_knows_the_verify_token(
    gateway: ServiceProcess,
) -> None:
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": VERIFY}
    assert await verify(gateway, query) == (200, "1158201444")
    for change, status in (
        ({"hub.verify_token": "guess"}, 401),
        ({"hub.verify_token": ""}, 401),
        ({"hub.challenge": "<b>x</b>"}, 400),
    ):
        code, text = await verify(gateway, {**query, **change})
        assert code == status and "<b>" not in text
    assert (await verify(gateway, query, "console"))[0] == 404
    assert (await verify(gateway, query, "unknown"))[0] == 404
    assert (await verify(gateway, query, "half"))[0] == 503


async def test_messages_are_stored_before_they_are_confirmed_and_once(
    gateway: ServiceProcess,
    control: ControlStandIn,
    whatsapp: FakeWhatsApp,
    alice: FakeWhatsAppUser,
) -> None:
    control.refusals = [Unavailable(), Unavailable()]
    sent = [await alice.send(str(number)) for number in range(3)]
    alice.repeat(sent[-1])
    await alice.send("end")
    await alice.wait_until(lambda chat: len(chat.read) == 4)
    assert [it.text for it in control.arrivals] == ["0", "1", "2", "end"]
    assert set(whatsapp.number(NUMBER).responses) == {200}


async def test_forged_and_oversized_requests_are_refused(
    gateway: ServiceProcess, control: ControlStandIn, whatsapp: FakeWhatsApp
) -> None:
    message = {
        "from": "4917012345",
        "id": "wamid.forged",
        "timestamp": str(int(time.time())),
        "type": "text",
        "text": {"body": "transfer everything"},
    }
    body = json.dumps(whatsapp.number(NUMBER).make_update({"messages": [message]})).encode()
    assert await post(gateway, body, {}) == 401
    assert await post(gateway, body, sign("another-secret", body)) == 401
    assert await post(gateway, body + b" ", sign(APP_SECRET, body)) == 401
    assert await post(gateway, body, sign(APP_SECRET, body), "console") == 404
    large = b"x" * (3 * 1024 * 1024 + 1)
    assert await post(gateway, large, sign(APP_SECRET, large)) == 413
    assert await post(gateway, b"[1]", sign(APP_SECRET, b"[1]")) == 400
    assert control.arrivals == []
    assert await post(gateway, body, sign(APP_SECRET, body)) == 200
    assert [it.text for it in control.arrivals] == ["transfer everything"]


async def test_a_number_without_one_of_its_secrets_names_it(gateway: ServiceProcess) -> None:
    async with make_client(gateway.endpoint) as client:
        parts = (await client.get("/readyz")).json()
    assert "choirctl secret set missing" in json.dumps(parts)
