"""Matrix through the gateway as a process: restarts, and modules that only a Matrix gateway loads."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from choir_common.bus.client import Bus
from choir_common.wire.messages import DmBinding, GatewayBinding
from choir_local.nats import EmbeddedNats
from choir_testing.matrix import FakeMatrix, run_fake_matrix
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table, running_control
from tests.support.bus import BUS_KEY
from tests.support.service_process import ServiceProcess, service_process

TOKEN = "process_matrix_secret"
ALICE = "@alice:example.org"


@pytest.fixture
async def matrix() -> AsyncIterator[FakeMatrix]:
    async with run_fake_matrix() as fake:
        fake.bot(TOKEN)
        yield fake


@pytest.fixture
async def matrix_control(nats: EmbeddedNats, matrix: FakeMatrix) -> AsyncIterator[ControlStandIn]:
    table = channel_table(
        GatewayBinding(name="bot", type="matrix", secret="token", api_url=matrix.api_url),
        DmBinding(name="alice", gateway="bot", user_id=ALICE, admin=True),
    )
    async with Bus(nats.url, BUS_KEY, "control") as bus, running_control(bus, table) as made:
        yield made


@pytest.fixture
async def matrix_gateway(
    nats: EmbeddedNats, matrix_control: ControlStandIn
) -> AsyncIterator[ServiceProcess]:
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"secrets": {"token": TOKEN}}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        assert TOKEN not in process.log


async def until_stored(control: ControlStandIn, count: int) -> None:
    async with asyncio.timeout(60):
        while len(control.inbox) < count:
            await asyncio.sleep(0.02)


async def test_a_killed_gateway_loses_and_doubles_nothing(
    matrix_gateway: ServiceProcess, matrix_control: ControlStandIn, matrix: FakeMatrix
) -> None:
    alice = matrix.user("alice", TOKEN)
    await alice.start_joined_room()
    alice.send("one")
    await until_stored(matrix_control, 1)
    await matrix_gateway.kill()
    alice.send("two")
    await matrix_gateway.start()
    alice.send("three")
    await until_stored(matrix_control, 3)
    assert [message.text for message in matrix_control.inbox.values()] == ["one", "two", "three"]
    receipt = await matrix_control.say("alice", "hello")
    assert (receipt.status, (await alice.receive()).body) == ("delivered", "hello")


async def test_a_note_of_control_is_sent_as_a_quotation(
    matrix_gateway: ServiceProcess, matrix_control: ControlStandIn, matrix: FakeMatrix
) -> None:
    matrix_control.note = "Nobody answers now."
    alice = matrix.user("alice", TOKEN)
    await alice.start_joined_room()
    alice.send("hello")
    assert (await alice.receive()).html == "<blockquote>Nobody answers now.</blockquote>"


def test_the_channel_is_not_loaded_without_a_matrix_gateway() -> None:
    name = "choir_gateway.channels.matrix.client"
    code = f"import sys, choir_gateway.app; print({name!r} in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.split() == ["False"]
