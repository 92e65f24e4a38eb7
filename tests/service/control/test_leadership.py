"""Which control process leads: one at a time, the next within seconds, and never two that write."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass

import httpx2
import pytest

from choir_common.errors import Unavailable
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_control.leadership.leadership import Leadership, LeadershipLost
from choir_control.leadership.lock_store import LeaderLock
from choir_control.leadership.standby_app import StandbyApp
from tests.service.control.hand_runtime import HandRuntime
from tests.service.control.world import World
from tests.support.polling import until
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.postgres_proxy import postgres_proxy

SERVICE = "choir-control"
SILENCE_S = 3.0
HOLDER = (
    "SELECT min(pid) FROM pg_locks JOIN pg_database ON database = pg_database.oid"
    " WHERE locktype = 'advisory' AND granted AND datname = current_database()"
)
END_HOLDER = f"SELECT pid FROM ({HOLDER}) AS holder(pid) WHERE pg_terminate_backend(pid)"
READ = "SELECT term FROM choir_control.leader_term"


@dataclass
class Control:
    """The parts of a control process that decide who leads, with its pool."""

    leadership: Leadership
    database: Database
    is_standby: bool = False

    async def stand_by(self) -> None:
        """Find that another one leads."""
        self.is_standby = not await self.leadership.start()
        assert self.is_standby

    async def lead(self) -> None:
        """Take the lock or wait for it, then open the pool, as control does."""
        if self.is_standby or not await self.leadership.start():
            await self.leadership.wait()
        await self.database.__aenter__()
        await self.leadership.begin_term()

    async def writes(self) -> bool:
        """Return whether this process can write to the database."""
        try:
            await self.database.execute("UPDATE choir_control.leader_term SET term = term")
        except Unavailable:
            return False
        return True


@contextlib.asynccontextmanager
async def control(dsn: str) -> AsyncIterator[Control]:
    lock = LeaderLock(
        Database(dsn, PASSWORD, size=1, application=SERVICE), service=SERVICE, silence_s=SILENCE_S
    )
    leadership = Leadership(lock)
    database = Database(dsn, PASSWORD, size=2, application=SERVICE, setup=leadership)
    try:
        yield Control(leadership, database)
    finally:
        await database.close()
        leadership.release()


@contextlib.asynccontextmanager
async def running(
    work: "Coroutine[object, object, None]",
) -> AsyncIterator["asyncio.Task[None]"]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_one_leads_and_a_release_lets_the_standby_lead(dsn: str) -> None:
    async with control(dsn) as first, control(dsn) as second:
        await first.lead()
        await second.stand_by()
        async with running(first.leadership.watch()):
            await until(lambda: _is(first.leadership.has_standby), 30)
        async with running(second.lead()) as waiting:
            await first.database.close()
            began = time.monotonic()
            first.leadership.release()
            await asyncio.wait_for(waiting, 30)
        assert time.monotonic() - began < 10
        assert await second.writes()
        assert not await first.writes()


async def test_questions_at_the_same_time_are_asked_one_after_the_other(dsn: str) -> None:
    database = Database(dsn, PASSWORD, size=1, application=SERVICE)
    lock = LeaderLock(database, service=SERVICE, silence_s=SILENCE_S)
    await lock.connect()
    try:
        assert await lock.try_take()
        answers = await asyncio.gather(
            lock.holder(), lock.has_standby(), lock.holder(), lock.read_term()
        )
        assert answers[:3] == [lock.name, False, lock.name]
    finally:
        lock.drop()


async def test_a_leader_whose_session_ends_takes_the_lock_again_before_its_next_check(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("choir_control.leadership.leadership.INTERVAL_S", 60.0)
    async with control(dsn) as leader:
        await leader.lead()
        async with running(leader.leadership.watch()), asyncio.timeout(SILENCE_S - 0.5):
            ended = await leader.database.fetchval(END_HOLDER)
            while await leader.database.fetchval(HOLDER) in (ended, None):
                await asyncio.sleep(0.05)


async def test_a_silent_leader_is_replaced_and_neither_its_old_nor_new_connections_write(
    dsn: str,
) -> None:
    async with control(dsn) as paused, control(dsn) as standby:
        await paused.lead()
        assert await paused.writes()
        # nothing checks the lock: as if the process were stopped
        async with paused.database.connection() as open_connection:
            await asyncio.wait_for(standby.lead(), 60)
            with pytest.raises(Unavailable):
                async with _as_used_by(paused.database):
                    await open_connection.execute("UPDATE choir_control.leader_term SET term = 99")
        assert not await paused.writes()
        assert await standby.writes()
        assert await standby.database.fetchval(READ) == 2
        with pytest.raises(LeadershipLost):
            await asyncio.wait_for(paused.leadership.watch(), 60)


async def test_a_leader_whose_connection_is_cut_is_replaced_and_ends_when_it_is_back(
    dsn: str,
) -> None:
    async with (
        postgres_proxy(dsn) as line,
        control(line.dsn) as cut_off,
        control(dsn) as standby,
    ):
        await cut_off.lead()
        await standby.stand_by()
        async with running(cut_off.leadership.watch()) as watching:
            await until(lambda: _is(cut_off.leadership.has_standby), 30)
            line.forwarding.clear()
            await asyncio.wait_for(standby.lead(), 60)
            # it leaves the bus, and does not end while it does not know
            await asyncio.wait_for(cut_off.leadership.until_in_doubt(), 30)
            assert not watching.done()
            line.forwarding.set()
            with pytest.raises(LeadershipLost):
                await asyncio.wait_for(watching, 60)
        assert not await cut_off.writes()
        assert await standby.writes()


async def test_a_restart_of_postgres_changes_nothing_although_a_standby_waits() -> None:
    async with running_postgres() as server:
        async with Database(server.dsn, PASSWORD, size=1, application="test") as database:
            await migrate(database, "choir_control", read_migrations("choir_control.migrations"))
        async with control(server.dsn) as leader, control(server.dsn) as standby:
            await leader.lead()
            await standby.stand_by()
            async with (
                running(leader.leadership.watch()) as watching,
                running(standby.leadership.wait()) as waiting,
            ):
                await until(lambda: _is(leader.leadership.has_standby), 30)
                await server.stop()
                await asyncio.sleep(2 * SILENCE_S)
                await server.start()
                await until(leader.writes, 60)
                await until(lambda: _is(leader.leadership.has_standby), 60)
                assert not watching.done()
                assert not waiting.done()


async def test_a_slow_postgres_changes_nothing_although_a_standby_waits(dsn: str) -> None:
    async with postgres_proxy(dsn) as line, control(line.dsn) as leader, control(dsn) as standby:
        await leader.lead()
        await standby.stand_by()
        async with (
            running(leader.leadership.watch()) as watching,
            running(standby.leadership.wait()) as waiting,
        ):
            line.delay_s = SILENCE_S / 3  # its first question takes two round trips
            await asyncio.sleep(3 * SILENCE_S)
            line.delay_s = 0
            assert not watching.done() and not waiting.done()
            assert await leader.writes()


def _somebody_leads(dsn: str) -> Callable[[], Awaitable[bool]]:
    lock = LeaderLock(
        Database(dsn, PASSWORD, size=1, application=SERVICE), service=SERVICE, silence_s=SILENCE_S
    )

    async def leads() -> bool:
        await lock.connect()
        try:
            return await lock.holder() is not None
        finally:
            lock.drop()

    return leads


async def test_a_leader_whose_start_takes_long_is_not_replaced(stopped: World) -> None:
    silence_s = {"leader_silence_s": SILENCE_S}
    stopped.settings = stopped.settings.model_copy(update=silence_s)
    runtime = HandRuntime()
    runtime.removal_s = 2 * SILENCE_S  # as of pods on a busy node
    async with control(stopped.settings.postgres_dsn) as standby:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(stopped.start(runtime))
            await until(_somebody_leads(stopped.settings.postgres_dsn), 30)
            waiting = tasks.create_task(standby.lead())
            await asyncio.sleep(3 * SILENCE_S)
            assert not waiting.done()
            waiting.cancel()
    assert await stopped.is_ready()


async def test_installations_in_different_databases_do_not_compete(dsn: str) -> None:
    other = dsn.replace(dsn.partition("?")[0].rpartition("/")[2], "postgres")
    async with control(dsn) as one, control(other) as another:
        assert await one.leadership.start()
        assert await another.leadership.start()


@pytest.mark.parametrize(
    ("path", "status", "part"),
    [
        ("/livez", 200, "ok"),
        ("/readyz", 503, "standby"),
        ("/readyz?standbyok=true", 200, "standby"),
        ("/metrics", 200, "choir_service_info"),
        ("/v1/status", 503, "another one leads"),
        ("/rpc/HEARTBEAT", 503, "another one leads"),
        ("/", 503, "another one leads"),
    ],
)
async def test_a_standby_says_that_it_waits_and_refuses_all_else(
    path: str, status: int, part: str
) -> None:
    transport = httpx2.ASGITransport(StandbyApp(SERVICE))
    async with httpx2.AsyncClient(transport=transport, base_url="http://standby") as client:
        answer = await client.get(path)
    assert (answer.status_code, part in answer.text) == (status, True)
    assert ("retry-after" in answer.headers) == ("leads" in part)


async def _is(value: bool) -> bool:
    return value


@contextlib.asynccontextmanager
async def _as_used_by(database: Database) -> AsyncIterator[None]:
    """Translate errors of a connection that was taken from the pool before."""
    try:
        yield
    except Exception as error:
        raise Unavailable(str(error)) from error
