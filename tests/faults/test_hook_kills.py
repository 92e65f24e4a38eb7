"""`kill -9` of the process that accepts requests of a hook, between storing and answering (GUARANTEES S41).

A program repeats a request until it is answered, as webhooks do. In the end each request is one message.
"""

import asyncio
import multiprocessing
import os
import random
import signal

import pytest

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_local.postgres import EmbeddedPostgres
from tests.faults.test_schedule_kills import SESSION
from tests.support.hook_worker import finish, run_worker
from tests.support.postgres import PASSWORD, running_postgres

# `make nightly` kills 200 times
KILLS = int(os.environ.get("CHOIR_HOOK_KILLS", "6"))
REQUESTS = 40 * KILLS


async def kill_often(server: EmbeddedPostgres, dice: random.Random) -> None:
    """Start and kill workers until all requests are answered."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.hook_worker"])
    pending, kills = list(range(REQUESTS)), 0
    while pending:
        own, theirs = context.Pipe(duplex=False)
        child = context.Process(
            target=run_worker, args=(server.dsn, PASSWORD, pending, theirs), daemon=True
        )
        child.start()
        theirs.close()
        assert await asyncio.to_thread(own.poll, 60) and own.recv() == -1
        if kills < KILLS:
            kills += 1
            await asyncio.sleep(dice.uniform(0.02, 0.2))
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
        await asyncio.to_thread(child.join)
        answered: set[int] = set()
        try:
            while own.poll():
                answered.add(own.recv())
        except EOFError:
            pass
        pending = [number for number in pending if number not in answered]
        if kills % 5 == 4:
            await server.stop()
            await server.start()


@pytest.mark.timeout(max(600, 30 * KILLS))
async def test_kills_between_store_and_answer_lose_and_double_no_request() -> None:
    async with running_postgres() as server:
        async with Database(server.dsn, PASSWORD, size=1, application="test") as database:
            await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
            await database.execute(SESSION)
        await kill_often(server, random.Random(41))
        async with Database(server.dsn, PASSWORD, size=2, application="test") as database:
            await finish(database)
            rows = await database.fetch("SELECT * FROM choir_control.trigger_deliveries")
            inbox = await database.fetch("SELECT inbox_id, text FROM choir_control.inbox")
            signals = await database.fetch("SELECT inbox_id FROM choir_control.signals")
    assert sorted(row["key"] for row in rows) == sorted(f"msg_{n}" for n in range(REQUESTS))
    assert {row["state"] for row in rows} == {"done"}
    ids = sorted(row["delivery_id"] for row in rows)
    assert sorted(row["inbox_id"] for row in inbox) == ids
    assert sorted(row["inbox_id"] for row in signals) == ids
    assert len({row["text"] for row in inbox}) == REQUESTS
