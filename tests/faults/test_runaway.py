"""S21: a runaway agent beside good ones: a log flood, an approval flood, and calls without an end.

Good agents send a heartbeat every few milliseconds; blocks with and without the runaway alternate, so that
the machine's own moods fall on both. What is held is each promise that does not depend on the machine: all of
the good ones' heartbeats are acknowledged, and the runaway is slowed down or told no. Figures are printed.
"""

import asyncio
import os
import time

from choir_common.wire.rpc import ApprovalRequest
from choir_control.log.eventlog.append import BURST_EVENTS, EVENTS_PER_S
from tests.bench.figures import percentile
from tests.support.load import LoadAgent, LoadTest, connect, running_load, sample_event
from tests.support.postgres import PASSWORD, running_postgres

GOOD = 8
BLOCKS = int(os.environ.get("CHOIR_TEST_RUNAWAY_BLOCKS", "1"))
BEATS = 60
PAUSE_S = 0.01
FLOOD = 200
OPEN_APPROVALS = 20


async def talk(member: LoadAgent, taken: list[float]) -> None:
    """Send heartbeats at a good agent's pace."""
    for number in range(BEATS):
        taken.append(await member.send(member.beat([sample_event(number)])))
        await asyncio.sleep(PAUSE_S)


async def flood_log(member: LoadAgent) -> None:
    """Send heartbeats full of events, one after the other."""
    while True:
        await member.send(member.beat([sample_event(number) for number in range(FLOOD)]))


async def flood_approvals(member: LoadAgent, refused: list[int]) -> None:
    """Ask for one decision after the other, on a connection of its own."""
    line = await connect(member.socket)
    try:
        for number in range(1_000_000):
            ask = ApprovalRequest(
                request_type="call", call_id=f"c{number}", payload={"tool": "x", "input": {}}
            )
            body = ask.model_dump_json().encode()
            status, _ = await line.send(member.request("REQUEST_APPROVAL", body))
            refused.append(status)
    finally:
        line.close()


async def block(crowd: LoadTest, taken: list[float]) -> None:
    await asyncio.gather(*(talk(member, taken) for member in crowd.members[:GOOD]))


async def test_good_agents_go_on_beside_a_runaway() -> None:
    quiet: list[float] = []
    beside: list[float] = []
    asked: list[int] = []
    async with running_postgres() as postgres:
        async with running_load(GOOD + 1, postgres.dsn, PASSWORD) as crowd:
            bad, start = crowd.members[GOOD], time.monotonic()
            await block(crowd, [])
            for _ in range(BLOCKS):
                await block(crowd, quiet)
                floods = (
                    asyncio.create_task(flood_log(bad)),
                    asyncio.create_task(flood_approvals(bad, asked)),
                )
                await block(crowd, beside)
                for flood in floods:
                    flood.cancel()
                await asyncio.gather(*floods, return_exceptions=True)
                bad.line = await connect(bad.socket)
            told, seconds = bad.head.rev, time.monotonic() - start
    # one heartbeat of each block may be cut off before it is paid for
    assert told <= BURST_EVENTS + EVENTS_PER_S * seconds + (BLOCKS + 1) * FLOOD
    assert len(beside) == len(quiet) == GOOD * BEATS * BLOCKS
    assert 0 < asked.count(200) <= OPEN_APPROVALS * (BLOCKS + 1) and len(asked) > OPEN_APPROVALS
    for share in (0.5, 0.99):
        alone, loaded = percentile(quiet, share) * 1000, percentile(beside, share) * 1000
        print(
            f"p{share * 100:g}: {alone:.1f} ms alone, {loaded:.1f} ms beside ({loaded / alone:.2f}x)"
        )
