"""`kill -9` of the process that runs schedules, around due times, with clocks that are set (GUARANTEES S40).

A minute passes in a fifth of a second. After each kill the next process uses the same database. In
the end each due time has exactly one run, and each run that started has exactly one message.
"""

import asyncio
import contextlib
import multiprocessing
import os
import random
import signal
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest

from choir_common.errors import Unavailable
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.wire.schedules import TimingKind
from choir_control.conversations.schedules.records import ScheduleDraft, ScheduleRules
from choir_control.conversations.schedules.store import ScheduleStore
from choir_control.conversations.schedules.timing import Cron, Interval, Once, Timing, next_due
from choir_local.postgres import EmbeddedPostgres
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.schedule_worker import FastClock, finish, run_worker

# `make nightly` kills 200 times
KILLS = int(os.environ.get("CHOIR_SCHEDULE_KILLS", "12"))
FACTOR = 60.0
START = datetime(2026, 3, 28, 23, 50, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
JUMPS = (timedelta(0),) * 4 + (-20 * MINUTE, 30 * MINUTE, -3 * MINUTE)
# the first ten are due again and again
NEWEST = """
SELECT min(newest) FROM (
    SELECT max(due_at) AS newest FROM choir_control.schedule_runs
    WHERE schedule_id <= 10 GROUP BY schedule_id
) AS of_schedules
"""
SESSION = """
INSERT INTO choir_control.sessions
    (session_id, agent_id, status, epoch, head_hash, workspace, llm, dm, gateway)
VALUES ('ses_1', 'main', 'active', 1, '', 'main', 'default', 'console', 'console')
"""


async def fill(database: Database) -> dict[int, Timing]:
    """Create the tables, an agent that runs, and the schedules; return the timing of each."""
    await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
    await database.execute(SESSION)
    store, timings = ScheduleStore(database), {}
    for number in range(60):
        minutes = 3 * number % 97 + 1
        kind: TimingKind = "at"
        value, timing = "", cast(Timing, Once(START + minutes * MINUTE))
        if number < 6:
            kind, value = "every", f"{number % 3 + 1}m"
            timing = Interval(START, (number % 3 + 1) * MINUTE)
        elif number < 10:
            kind, value = "cron", f"*/{number - 5} * * * *"
            timing = Cron(value, "Europe/Berlin")
        draft = ScheduleDraft(
            agent_id="main",
            dm="console",
            kind="prompt" if number % 2 else "remind",
            text=f"words {number}",
            timing_kind=kind,
            value=value,
            zone="Europe/Berlin",
            timing=timing,
            rules=ScheduleRules(
                "all" if number % 3 else "once", 10 * MINUTE, "allow", timedelta(0), 100
            ),
            created_by="operator",
            words="",
        )
        first = next_due(timing, START)
        assert first is not None
        created = await store.create(draft, first=first, start_at=first, now=START)
        assert created is not None
        timings[created] = timing
    return timings


def due_times(timing: Timing, until: datetime) -> list[datetime]:
    times: list[datetime] = []
    due = next_due(timing, START)
    while due is not None and due <= until:
        times.append(due)
        due = next_due(timing, due)
    return times


async def catch_up(database: Database, clock: FastClock) -> None:
    """Wait until the worker is near its clock: more than 100 missed runs in a row are not made up for."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                newest = await database.fetchval(NEWEST)
                if newest is not None and newest >= clock.now() - 20 * MINUTE:
                    return
            await asyncio.sleep(0.02)


async def kill_often(
    server: EmbeddedPostgres, database: Database, dice: random.Random
) -> FastClock:
    """Start and kill workers, now and then Postgres too; return the clock as it is in the end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.schedule_worker"])
    clock, latest = FastClock(START, FACTOR), START
    for number in range(KILLS):
        clock.offset += dice.choice(JUMPS)
        begun = context.Event()
        child = context.Process(
            target=run_worker, args=(server.dsn, PASSWORD, clock, begun), daemon=True
        )
        child.start()
        # a machine that is busy starts a process in seconds, which would be hours here
        assert await asyncio.to_thread(begun.wait, 60)
        clock.resume()
        if number % 2:
            await catch_up(database, clock)
        await asyncio.sleep(dice.uniform(0, 0.2))
        if number % 20 == 7:
            await server.stop()
            await server.start()
        latest = max(latest, clock.now())
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        await asyncio.to_thread(child.join)
        clock.hold()
    clock.offset += max(timedelta(0), latest - clock.now()) + MINUTE
    return clock


@pytest.mark.timeout(max(600, 30 * KILLS))
async def test_kills_restarts_and_set_clocks_lose_and_double_no_run() -> None:
    async with running_postgres() as server:
        async with Database(server.dsn, PASSWORD, size=1, application="test") as database:
            timings = await fill(database)
            clock = await kill_often(server, database, random.Random(40))
            await finish(database, clock)
            await check(database, timings, clock.now())


async def check(database: Database, timings: dict[int, Timing], end: datetime) -> None:
    """Assert that each due time has one final run, and each started run one message."""
    rows = await database.fetch("SELECT * FROM choir_control.schedule_runs ORDER BY due_at")
    for schedule_id, timing in timings.items():
        own = [row["due_at"] for row in rows if row["schedule_id"] == schedule_id]
        assert [at for at in own if START < at <= end] == due_times(timing, end), timing
    assert {row["state"] for row in rows} <= {"done", "missed"}
    started = [row for row in rows if row["started_at"] is not None]
    reminders = {row["outbox_id"] for row in started if row["outbox_id"] is not None}
    prompts = {row["run_id"] for row in started if row["outbox_id"] is None}
    sent = await database.fetch("SELECT outbox_id FROM choir_control.outbox")
    asked = await database.fetch("SELECT inbox_id FROM choir_control.inbox")
    signals = await database.fetch("SELECT inbox_id FROM choir_control.signals")
    assert sorted(row["outbox_id"] for row in sent) == sorted(reminders)
    assert sorted(row["inbox_id"] for row in asked) == sorted(prompts)
    assert sorted(row["inbox_id"] for row in signals) == sorted(prompts)
    assert len(reminders) + len(prompts) == len(started) > 0
