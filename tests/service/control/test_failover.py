"""Two control processes: the leader is killed, paused, cut off and replaced while a user writes (S49).

After every fault each accepted message has exactly one answer, said once, and no tool ran twice.
"""

import asyncio
import os
import random
import signal
import time
from collections.abc import AsyncIterator

import pytest

from choir_control.leadership.leadership import LeadershipLost
from choir_local.nats import EmbeddedNats
from tests.service.control.world import World
from tests.support.bus import BUS_USERS
from tests.support.control_processes import ControlProcess, ControlProcesses, control_processes
from tests.support.ports import free_port
from tests.support.postgres_proxy import postgres_proxy
from tests.support.service_process import short_home

pytestmark = pytest.mark.usefixtures("nats")

KILLS = int(os.environ.get("CHOIR_FAILOVERS", "3"))
TURN_S = 0.8
FAULTS = (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
LEADS_WITHIN_S = 30.0
"""Time for the standby to lead on a busy machine; docs/decisions/0115 has the measurements."""


class PingingNats(EmbeddedNats):
    """A bus like that of deploy/kubernetes, which soon drops a client that hangs."""

    def _render(self) -> str:
        return super()._render() + 'ping_interval: "2s"\nping_max: 2\n'


@pytest.fixture
async def nats() -> AsyncIterator[EmbeddedNats]:
    async with short_home() as root:
        server = PingingNats(root / "data", root / "nats.log", BUS_USERS, port=free_port())
        await server.start()
        yield server
        await server.stop()


async def _replace(pair: ControlProcesses, fault: signal.Signals) -> float:
    """Do something to the leader in the middle of a turn.

    Return the seconds until the standby leads; a message that is sent then is answered.
    """
    async with pair.load():
        leader = await pair.leader()
        await asyncio.sleep(random.uniform(0, TURN_S))
        began = time.monotonic()
        leader.signal(fault)
    await _until_replaced(pair, leader)
    led_after = time.monotonic() - began
    await pair.ask()
    answered_after = time.monotonic() - began
    if fault == signal.SIGSTOP:
        leader.signal(signal.SIGCONT)
    code = await pair.end_of(leader)
    expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 0}
    assert code == expected.get(fault, LeadershipLost.exit_code), pair.logs()
    print(
        f"{fault.name}: leads after {led_after:.1f} s, answers after {answered_after:.1f} s",
        flush=True,
    )
    return led_after


async def _until_replaced(pair: ControlProcesses, leader: ControlProcess) -> None:
    pair.running.remove(leader)
    try:
        assert await pair.leader() is not leader
    finally:
        pair.running.append(leader)


@pytest.mark.timeout(600 + 60 * KILLS)
async def test_leaders_that_are_killed_replaced_or_paused_lose_and_double_nothing(
    stopped: World,
) -> None:
    async with control_processes(stopped) as pair:
        await pair.start()
        for number in range(KILLS):
            await pair.start()
            assert await _replace(pair, FAULTS[number % len(FAULTS)]) < LEADS_WITHIN_S
        await pair.check()


@pytest.mark.timeout(600)
async def test_a_leader_that_is_cut_off_from_postgres_is_replaced(stopped: World) -> None:
    async with (
        postgres_proxy(stopped.settings.postgres_dsn) as line,
        control_processes(stopped) as pair,
    ):
        cut_off = await pair.start(line.dsn)
        await pair.start()
        async with pair.load():
            await asyncio.sleep(2)  # the leader has seen its standby
            began = time.monotonic()
            line.forwarding.clear()
        await _until_replaced(pair, cut_off)
        seconds = time.monotonic() - began
        await pair.ask()
        line.forwarding.set()
        assert await pair.end_of(cut_off) == LeadershipLost.exit_code, pair.logs()
        await pair.check()
    print(f"cut off: leads after {seconds:.1f} s")
    assert seconds < LEADS_WITHIN_S
