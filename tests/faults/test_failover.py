"""Two control processes: the leader is killed, stopped, cut off and replaced while a user writes (GUARANTEES S49).

After every fault each accepted message has exactly one answer, said once, and no tool ran twice.
"""

import asyncio
import os
import random
import signal
import time

import pytest

from choir_control.leadership.leadership import LeadershipLost
from tests.service.control.conftest import (
    bus,
    create_schema,
    database,
    dsn,
    nats,
    nats_url,
    postgres,
    shared_nats_url,
    stopped,
    template,
)
from tests.service.control.world import World
from tests.support.control_processes import ControlProcess, ControlProcesses, control_processes
from tests.support.postgres_proxy import postgres_proxy

__all__ = [
    *("bus", "create_schema", "database", "dsn", "nats", "nats_url", "postgres"),
    *("shared_nats_url", "stopped", "template"),
]

KILLS = int(os.environ.get("CHOIR_FAILOVERS", "3"))
TURN_S = 0.8
LEADS_WITHIN_S = float(os.environ.get("CHOIR_FAILOVER_WITHIN_S", "30"))
"""Ten on a machine without other work; docs/decisions/0115 has the measurements."""


async def _replace(pair: ControlProcesses, fault: signal.Signals) -> float:
    """Do something to the leader in the middle of a turn; return the seconds until the next answer."""
    async with pair.load():
        leader = await pair.leader()
        await asyncio.sleep(random.uniform(0, TURN_S))
        began = time.monotonic()
        leader.signal(fault)
    if fault == signal.SIGSTOP:
        await _until_replaced(pair, leader)
    await pair.ask()
    seconds = time.monotonic() - began
    if fault == signal.SIGSTOP:
        leader.signal(signal.SIGCONT)
    code = await pair.end_of(leader)
    expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 0}
    assert code == expected.get(fault, LeadershipLost.exit_code), pair.logs()
    return seconds


async def _until_replaced(pair: ControlProcesses, leader: ControlProcess) -> None:
    pair.running.remove(leader)
    try:
        assert await pair.leader() is not leader
    finally:
        pair.running.append(leader)


@pytest.mark.timeout(600 + 60 * KILLS)
async def test_leaders_that_end_paused_or_killed_lose_and_double_nothing(stopped: World) -> None:
    faults = [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP]
    taken: dict[str, list[float]] = {fault.name: [] for fault in faults}
    async with control_processes(stopped) as pair:
        await pair.start()
        for number in range(KILLS):
            await pair.start()
            fault = faults[number % len(faults)]
            taken[fault.name].append(await _replace(pair, fault))
        await pair.check()
    print("seconds to the next answer:", {name: sorted(times) for name, times in taken.items()})
    assert max(max(times, default=0) for times in taken.values()) < LEADS_WITHIN_S


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
        print("replaced after", time.monotonic() - began)
        await pair.ask()
        seconds = time.monotonic() - began
        line.forwarding.set()
        assert await pair.end_of(cut_off) == LeadershipLost.exit_code, pair.logs()
        print(pair.logs())
        await pair.check()
    print("seconds to the next answer:", seconds)
    assert seconds < LEADS_WITHIN_S
