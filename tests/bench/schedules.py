"""Idle cost of 1,000 schedules: CPU time and transactions of a stack with and without them.

Nothing is due during a block. Both states have the same running agent, whose heartbeats are in both figures.
"""

import asyncio
from dataclasses import dataclass

import asyncpg
import psutil

from choir_common.http.client import make_client
from tests.bench.figures import ScheduleFigures
from tests.support.stack import EmbeddedStack, console_user

SCHEDULES = 1_000
ROUNDS = 2
BLOCK_S = 60.0
SETTLE_S = 30.0
"""Pause after a change, so that its own work is not measured; Postgres counts up to ten seconds late."""
AT_A_TIME = 10
TIMINGS = (("every", "1w"), ("cron", "0 0 1 1 *"), ("at", "2035-01-01 08:00"), ("in", "30d"))
_TRANSACTIONS = "SELECT sum(xact_commit + xact_rollback)::bigint FROM pg_stat_database"


@dataclass(frozen=True, slots=True)
class Usage:
    """What was used since the start."""

    control_s: float
    postgres_s: float
    transactions: int


async def measure_schedules(stack: EmbeddedStack) -> ScheduleFigures:
    """Measure blocks without and with schedules, alternating."""
    without: list[Usage] = []
    with_them: list[Usage] = []
    async with console_user(stack.endpoint) as user:
        await user.asks("hello")
    connection = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        for _ in range(ROUNDS):
            without.append(await _measure_block(stack, connection))
            await _add_schedules(stack)
            with_them.append(await _measure_block(stack, connection))
            await connection.execute("DELETE FROM choir_control.schedules")
    finally:
        await connection.close()
    minutes = ROUNDS * BLOCK_S / 60

    return ScheduleFigures(
        control_ms=round(1000 * sum(block.control_s for block in without) / minutes, 1),
        control_with_ms=round(1000 * sum(block.control_s for block in with_them) / minutes, 1),
        postgres_ms=round(1000 * sum(block.postgres_s for block in without) / minutes, 1),
        postgres_with_ms=round(1000 * sum(block.postgres_s for block in with_them) / minutes, 1),
        transactions=round(sum(block.transactions for block in without) / minutes, 1),
        transactions_with=round(sum(block.transactions for block in with_them) / minutes, 1),
        schedules=SCHEDULES,
        minutes=minutes,
    )


async def _measure_block(stack: EmbeddedStack, connection: asyncpg.Connection) -> Usage:
    await asyncio.sleep(SETTLE_S)
    before = await _read_usage(stack, connection)
    await asyncio.sleep(BLOCK_S)
    after = await _read_usage(stack, connection)
    return Usage(
        after.control_s - before.control_s,
        after.postgres_s - before.postgres_s,
        after.transactions - before.transactions,
    )


async def _read_usage(stack: EmbeddedStack, connection: asyncpg.Connection) -> Usage:
    control = psutil.Process(stack.pid("control"))
    postgres = psutil.Process(stack.pid("postgres"))
    # Postgres' main process also counts its children that have ended.
    processes = [postgres, *postgres.children(recursive=True)]
    ended = postgres.cpu_times()
    postgres_s = sum(map(_cpu_s, processes)) + ended.children_user + ended.children_system
    transactions = int(await connection.fetchval(_TRANSACTIONS))
    return Usage(_cpu_s(control), float(postgres_s), transactions)


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _add_schedules(stack: EmbeddedStack) -> None:
    slots = asyncio.Semaphore(AT_A_TIME)
    async with make_client(stack.endpoint, timeout_s=60) as client:

        async def add(number: int) -> None:
            timing, value = TIMINGS[number % len(TIMINGS)]
            kind = ("remind", "prompt")[number % 2]
            body = {"agent_id": "main", "kind": kind, "text": f"words {number}"}
            async with slots:
                answer = await client.post(
                    "/v1/schedules", json={**body, "timing": timing, "value": value}
                )
            assert answer.status_code == 201, answer.text

        await asyncio.gather(*(add(number) for number in range(SCHEDULES)))
