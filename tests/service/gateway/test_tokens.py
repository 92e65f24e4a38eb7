"""Bots' tokens reach a running gateway from control, over the gateway's own door and nowhere else."""

import asyncio
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_local.nats import EmbeddedNats
from choir_testing.telegram import FakeTelegram
from tests.service.gateway.control_stand_in import ControlStandIn
from tests.support.bus import SERVICE_KEYS
from tests.support.service_process import ServiceProcess, service_process

GATEWAY_TOKEN = "gateway-token-of-the-test"
OLD, NEW = "111:main-secret", "333:rotated-secret"


@pytest.fixture
async def bare(nats: EmbeddedNats, control: ControlStandIn) -> AsyncIterator[ServiceProcess]:
    """A gateway that was started without any bot's token."""
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"gateway_token": GATEWAY_TOKEN}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        for token in (OLD, NEW, SERVICE_KEYS["gateway"], GATEWAY_TOKEN):
            assert token not in process.log


async def put(gateway: ServiceProcess, body: str, token: str = GATEWAY_TOKEN) -> httpx2.Response:
    async with make_client(gateway.endpoint) as client:
        return await client.put(
            "/v1/channels/tokens",
            content=body,
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )


def parcel(version: int, token: str) -> str:
    return json.dumps({"version": version, "tokens": {"main-token": token}})


async def until_said(control: ControlStandIn, count: int) -> None:
    async with asyncio.timeout(60):
        while len(control.arrivals) < count:
            await asyncio.sleep(0.02)


async def test_a_bot_begins_with_the_token_that_is_brought_and_changes_to_the_next(
    bare: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    telegram.bot(NEW)
    brought = await put(bare, parcel(4, OLD))
    assert brought.status_code == 204
    await telegram.user(7, OLD).send("over the old token")
    await until_said(control, 1)
    assert control.tokens_version == 4

    await put(bare, parcel(5, NEW))
    await telegram.user(7, NEW).send("over the new one")
    await until_said(control, 2)
    assert [m.text for m in control.arrivals] == ["over the old token", "over the new one"]
    assert control.tokens_version == 5

    await put(bare, '{"version": 6, "tokens": {}}')
    async with make_client(bare.endpoint) as client, asyncio.timeout(60):
        while "lacks a secret" not in (await client.get("/readyz")).text:
            await asyncio.sleep(0.05)


async def test_nobody_brings_tokens_without_the_operators(bare: ServiceProcess) -> None:
    refused = await put(bare, '{"version": 4, "tokens": {}}', token="guessed")
    assert refused.status_code == 401


async def test_a_gateway_that_cannot_know_control_takes_none(gateway: ServiceProcess) -> None:
    assert (await put(gateway, '{"version": 4, "tokens": {}}')).status_code == 401


@pytest.mark.parametrize(
    "body", ['{"tokens": {"main-token": "%s"}}', '{"version": 4, "tokens": ["%s"]}', '"%s"', "%s"]
)
async def test_what_does_not_fit_is_refused_and_never_repeated(
    bare: ServiceProcess, body: str
) -> None:
    refused = await put(bare, body % NEW)
    assert refused.status_code == 400
    assert NEW not in refused.text
