"""Discord through the gateway as a process: restarts, and the library that only a Discord gateway loads."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from choir_common.bus.client import Bus
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_local.nats import EmbeddedNats
from choir_testing.discord import FakeDiscord, run_fake_discord
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.support.bus import BUS_KEY
from tests.support.service_process import ServiceProcess, service_process

TOKEN = "process.discord.secret"


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with run_fake_discord() as fake:
        fake.user(7, TOKEN)
        yield fake


@pytest.fixture
async def discord_control(
    nats: EmbeddedNats, discord: FakeDiscord
) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        GatewayBinding(name="bot", type="discord", secret="token", api_url=discord.api_url),
        DmBinding(name="alice", gateway="bot", user_id="7", admin=True),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


@pytest.fixture
async def discord_gateway(
    nats: EmbeddedNats, discord_control: ControlStandIn
) -> AsyncIterator[ServiceProcess]:
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"secrets": {"token": TOKEN}}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        assert TOKEN not in process.log


async def until_session(discord: FakeDiscord, count: int) -> None:
    async with asyncio.timeout(60):
        while discord.bot(TOKEN).sessions.identified < count:
            await asyncio.sleep(0.02)


async def until_arrived(control: ControlStandIn, count: int) -> None:
    async with asyncio.timeout(60):
        # a message that arrives again, because its gateway was killed, is in the inbox once
        while len(control.inbox) < count:
            await asyncio.sleep(0.02)


async def test_a_killed_gateway_loses_and_doubles_nothing(
    discord_gateway: ServiceProcess, discord_control: ControlStandIn, discord: FakeDiscord
) -> None:
    alice = discord.user(7, TOKEN)
    await until_session(discord, 1)
    await alice.send("one")
    await until_arrived(discord_control, 1)
    await discord_gateway.kill()
    discord.bot(TOKEN).sessions.forget()
    await alice.send("two")
    await discord_gateway.start()
    await until_session(discord, 2)
    await alice.send("three")
    await until_arrived(discord_control, 3)
    assert [message.text for message in discord_control.inbox.values()] == ["one", "two", "three"]
    receipt = await discord_control.say("alice", "hello")
    assert (receipt.status, (await alice.receive()).text) == ("delivered", "hello")


async def test_a_note_of_control_is_sent_as_a_quotation(
    discord_gateway: ServiceProcess, discord_control: ControlStandIn, discord: FakeDiscord
) -> None:
    await until_session(discord, 1)
    discord_control.note = "Nobody answers now."
    await discord.user(7, TOKEN).send("hello")
    assert (await discord.user(7, TOKEN).receive()).text == "> Nobody answers now."


def test_the_library_is_not_loaded_without_a_discord_gateway() -> None:
    code = (
        "import sys, choir_gateway.app; print('discord' in sys.modules, 'aiohttp' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False", "False"]
