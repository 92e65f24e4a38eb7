"""Fixtures of the gateway's tests: a bus, a Telegram, control's stand-in and the gateway itself."""

from collections.abc import AsyncIterator

import pytest

from choir_common.bus.client import Bus
from choir_common.wire.messages import DmBinding
from choir_local.nats import EmbeddedNats
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.service.gateway.control_stand_in import (
    ControlStandIn,
    bot_gateway,
    channel_table,
    running_control,
)
from tests.support.bus import BUS_KEY, SERVICE_KEYS
from tests.support.service_process import (
    ServiceProcess,
    running_bus_server,
    service_process,
)

MAIN_TOKEN, WORK_TOKEN = "111:main-secret", "222:work-secret"


@pytest.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with run_fake_telegram() as fake:
        fake.bot(MAIN_TOKEN)
        fake.bot(WORK_TOKEN)
        yield fake


@pytest.fixture
async def nats() -> AsyncIterator[EmbeddedNats]:
    async with running_bus_server() as server:
        yield server


@pytest.fixture
async def control(nats: EmbeddedNats, telegram: FakeTelegram) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        bot_gateway("bot-main", "main-token", telegram.api_url),
        bot_gateway("bot-work", "work-token", telegram.api_url),
        DmBinding(name="alice", gateway="bot-main", user_id="7", admin=True),
        DmBinding(name="bob", gateway="bot-main", user_id="8", admin=False),
        DmBinding(name="alice-work", gateway="bot-work", user_id="7", admin=False),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


@pytest.fixture
async def gateway(nats: EmbeddedNats, control: ControlStandIn) -> AsyncIterator[ServiceProcess]:
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"secrets": {"main-token": MAIN_TOKEN, "work-token": WORK_TOKEN}}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        for token in (MAIN_TOKEN, WORK_TOKEN, SERVICE_KEYS["gateway"]):
            assert token not in process.log
