"""A program behind a webhook: signed in both directions, and stored before it is confirmed."""

import base64
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from choir_common.errors import Unauthorized, Unavailable
from choir_common.http.client import make_client
from choir_common.webhook_signature import TOLERANCE, WebhookSigner
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_local.nats import EmbeddedNats
from choir_testing.fake_webhook_program import FakeWebhookProgram, run_fake_webhook_program
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table
from tests.support.ports import free_port
from tests.support.service_process import ServiceProcess, service_process

SECRET = "hook-key-of-the-test"
NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
HELLO: dict[str, Any] = {"type": "message", "user": "alice@example", "text": "hello"}


@pytest.fixture
async def program() -> AsyncIterator[FakeWebhookProgram]:
    async with run_fake_webhook_program(SECRET) as running:
        yield running


@pytest.fixture
async def gateway(
    nats: EmbeddedNats, control: ControlStandIn, program: FakeWebhookProgram
) -> AsyncIterator[ServiceProcess]:
    control.table = channel_table(
        GatewayBinding(name="app", type="webhook", secret="hook", api_url=program.url),
        GatewayBinding(name="broken", type="webhook", secret="bad", api_url=program.url),
        DmBinding(name="alice", gateway="app", user_id="alice@example", admin=True),
    )
    port = free_port()
    async with service_process(
        "choir_gateway", nats.url, {"CHOIR_GATEWAY_HTTP": f"127.0.0.1:{port}"}
    ) as process:
        secrets = {"hook": SECRET, "bad": "whsec_not base64"}
        process.secrets = {"gateway_token": "token-of-the-test", "secrets": secrets}
        process.address = f"http://127.0.0.1:{port}"
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        assert SECRET not in process.log


async def post(
    gateway: ServiceProcess, body: bytes, headers: dict[str, str], name: str = "app"
) -> tuple[int, Any]:
    async with make_client(gateway.endpoint) as client:
        answer = await client.post(f"/webhook/{name}", content=body, headers=headers)
        return answer.status_code, answer.json()


async def test_an_update_is_stored_once_and_the_response_has_the_note(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram
) -> None:
    control.note = "No agent runs."
    body = json.dumps(HELLO).encode()
    headers = program.sign(body)
    for _ in range(2):
        stored = {"is_stored": True, "note": "No agent runs."}
        assert await post(gateway, body, headers) == (200, stored)
    (message,) = control.inbox.values()
    assert (message.dm, message.text, message.update_id) == (
        "alice",
        "hello",
        headers["webhook-id"],
    )


async def test_an_update_that_control_cannot_store_is_not_confirmed(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram
) -> None:
    control.refusals = [Unavailable()]
    body = json.dumps(HELLO).encode()
    headers = program.sign(body)
    assert (await post(gateway, body, headers))[0] == 503
    assert control.inbox == {}
    assert (await post(gateway, body, headers))[0] == 200
    assert len(control.inbox) == 1


async def test_only_requests_with_a_valid_signature_are_heard(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram
) -> None:
    body = json.dumps(HELLO).encode()
    good = program.sign(body)
    forged = WebhookSigner("another key").sign("u", body, datetime.now(UTC))
    old = WebhookSigner(SECRET).sign("u", body, datetime.now(UTC) - TOLERANCE * 2)
    for headers in ({}, forged, old, {**good, "webhook-id": "another"}, {**good, "webhook-id": ""}):
        assert (await post(gateway, body, headers))[0] == 401
    assert (await post(gateway, body + b" ", good))[0] == 401
    assert (await post(gateway, body, good, "nobody"))[0] == 404
    assert (await post(gateway, body, good, "console"))[0] == 404
    assert control.arrivals == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"not json",
        b'{"type": "message", "user": "alice@example"}',
        b'{"type": "message", "user": "alice@example", "text": 5}',
        b'{"type": "message", "user": "alice@example", "text": "x", "more": 1}',
        b'{"type": "press", "user": "alice@example"}',
        b'{"type": "message", "user": "alice@example", "files": [{"name": "a", "content": "?"}]}',
        b'{"type": "message", "user": "alice@example", "text": "\\ud800"}',
    ],
)
async def test_a_body_of_another_shape_is_refused_with_its_place(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram, body: bytes
) -> None:
    status, problem = await post(gateway, body, program.sign(body))
    assert (status, problem["code"]) == (400, "bad_input")
    assert control.arrivals == []


async def test_a_file_of_some_megabytes_arrives_and_a_larger_body_is_refused(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram
) -> None:
    for size, status in ((5_000_000, 200), (9_000_000, 413)):
        file = {"name": "a.bin", "content": base64.b64encode(b"x" * size).decode()}
        body = json.dumps({**HELLO, "files": [file]}).encode()
        assert (await post(gateway, body, program.sign(body)))[0] == status
    (message,) = control.inbox.values()
    assert [file.size for file in message.attachments] == [5_000_000]


async def test_a_gateway_with_an_invalid_key_says_so_and_the_others_work(
    gateway: ServiceProcess, program: FakeWebhookProgram
) -> None:
    async with make_client(gateway.endpoint) as client:
        parts = (await client.get("/readyz")).json()["parts"]
    details = {part["name"]: part["detail"] for part in parts}
    assert "whsec_" in details["broken"] and "base64" in details["broken"]
    body = json.dumps(HELLO).encode()
    assert (await post(gateway, body, program.sign(body)))[0] == 200


async def test_a_message_reaches_the_program_and_its_state_names_a_failure(
    gateway: ServiceProcess, control: ControlStandIn, program: FakeWebhookProgram
) -> None:
    program.faults.append("busy")
    with pytest.raises(Unavailable, match="status 503"):
        await control.say("alice", "good morning")
    async with make_client(gateway.endpoint) as client:
        assert "status 503" in (await client.get("/readyz")).text
        receipt = await control.say("alice", "good morning")
        assert (receipt.status, receipt.message_id) == ("delivered", "2")
        assert "status 503" not in (await client.get("/readyz")).text
    (message,) = program.requests
    assert (message["user"], message["text"]) == ("alice@example", "good morning")


def test_a_signature_is_that_of_the_specification() -> None:
    # the example of https://github.com/standard-webhooks/standard-webhooks, libraries/python
    key = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    body = b'{"test": 2432232314}'
    moment = datetime.fromtimestamp(1614265330, UTC)
    headers = WebhookSigner(key).sign("msg_p5jXN8AQM9LWM0D4loKWxJek", body, moment)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_one_of_several_signatures_is_enough_while_a_key_is_replaced() -> None:
    signer, former = WebhookSigner("new"), WebhookSigner("old")
    headers = signer.sign("u", b"{}", NOW)
    both = f"{former.sign('u', b'{}', NOW)['webhook-signature']} {headers['webhook-signature']}"
    assert signer.verify({**headers, "webhook-signature": both}, b"{}", NOW) == "u"


@pytest.mark.parametrize("apart", [TOLERANCE - timedelta(seconds=1), timedelta(), -TOLERANCE / 2])
def test_clocks_may_differ_by_minutes(apart: timedelta) -> None:
    signer = WebhookSigner(SECRET)
    assert signer.verify(signer.sign("u", b"{}", NOW), b"{}", NOW + apart) == "u"


@pytest.mark.parametrize("timestamp", ["", "soon", "-5", "1e9", "٣", "9" * 30])
def test_a_timestamp_that_is_no_number_is_refused(timestamp: str) -> None:
    signer = WebhookSigner(SECRET)
    headers = {
        "webhook-id": "u",
        "webhook-timestamp": timestamp,
        "webhook-signature": f"v1,{signer._digest('u', timestamp, b'{}')}",
    }
    with pytest.raises(Unauthorized, match="webhook-timestamp"):
        signer.verify(headers, b"{}", NOW)
