"""Postgres is down, read-only, slow, full, or has no connection left (GUARANTEES R3, promise 11).

Each time choird lives, says on `/readyz` what is wrong, acknowledges nothing that is not stored, and takes up
its work when the fault is over; what an agent buffered meanwhile drains in order.
"""

import asyncio
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from choir_agent.control_client.control_client import ControlClient as ControlClient
from choir_agent.log.log_replicator import LogReplicator
from choir_agent.log.session_log import SessionLog
from choir_common.bus.client import Bus
from choir_common.clock import Clock, SystemClock
from choir_common.postgres.pool import Database
from choir_common.wire.rpc import AgentStartParameters
from choir_control.agents.sessions.crash_recovery import SWEEP_S, liveness_thresholds
from choir_local.postgres import EmbeddedPostgres, PostgresPaths
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, make_world, until
from tests.service.memory.servers import running_nats
from tests.support.agent_fakes import FixedHeartbeatSettings, silent_log
from tests.support.bus import BUS_KEY
from tests.support.load import sample_event
from tests.support.postgres import PASSWORD, running_postgres
from tests.support.postgres_proxy import PostgresProxy, postgres_proxy

BUFFERED = 10_000
DRAIN_WITHIN_S = 10.0
LOST_S = 3.0
TMPFS_BYTES = 192 * 1024 * 1024


@contextlib.asynccontextmanager
async def choird_over(
    dsn: str,
    behind: str | None = None,
    clock: Clock | None = None,
    *,
    lost_s: float = 120,
    usual_thresholds: bool = False,
) -> AsyncIterator[World]:
    """Start a choird over the database `dsn`; the test itself uses `behind`.

    A silent agent is lost after `lost_s`, with `usual_thresholds` as by a config.json without that setting.
    """
    async with (
        running_nats() as nats,
        Bus(nats.url, BUS_KEY, "test") as bus,
        Database(behind or dsn, PASSWORD, size=2, application="test") as database,
        make_world(dsn, PASSWORD, nats.url, database, bus) as world,
    ):
        world.lose_after(lost_s)
        if usual_thresholds:
            path = world.settings.config_file
            config = json.loads(path.read_text())
            for name in ("heartbeat_interval_ms", "crash_detection_threshold_ms"):
                del config[name]
            path.write_text(json.dumps(config))
        world.clock = clock
        await world.start()
        yield world


@contextlib.asynccontextmanager
async def choird_behind_a_proxy() -> AsyncIterator[tuple[World, PostgresProxy, EmbeddedPostgres]]:
    async with running_postgres() as postgres, postgres_proxy(postgres.dsn) as proxy:
        async with choird_over(proxy.dsn, postgres.dsn) as world:
            yield world, proxy, postgres


async def begin(world: World) -> AgentHand:
    agent = await world.agent()
    await agent.begin()
    return agent


async def reason(world: World) -> str | None:
    """Return what /readyz says of Postgres, none if nothing is wrong; choird itself lives throughout."""
    assert (await world.get("/livez")).status_code == 200
    return (await world.missing()).get("postgres")


async def until_reason(world: World, holds: Callable[[str | None], bool]) -> None:
    async def said() -> bool:
        return holds(await reason(world))

    await until(said)


async def status_of(agent: AgentHand) -> int:
    """Send what is not acknowledged; return the status."""
    answer = await agent.post("HEARTBEAT", agent.heartbeat())
    if answer.status_code == 200:
        agent.acked = agent.head
    return answer.status_code


async def until_durable(world: World, agent: AgentHand) -> None:
    """Resend the request until it is acknowledged; the stored log is the agent's own, whole."""

    async def durable() -> bool:
        return await status_of(agent) == 200

    await until(durable)
    verdict = await world.verify(agent.spec.session_id)
    assert verdict["ok"] and verdict["head_rev"] == agent.head.rev
    assert len(world.runtime.specs) == 1, "an agent paid for the database's fault"


@pytest.mark.nightly  # a matter of speed; the tests here buffer and drain fewer events
async def test_ten_thousand_buffered_events_drain_within_ten_seconds_of_its_return() -> None:
    async with running_postgres() as postgres, choird_over(postgres.dsn) as world:
        agent = await begin(world)
        await postgres.stop()
        log, replication, client = replicator(agent)
        sending = asyncio.create_task(replication.run())
        try:
            for number in range(BUFFERED):
                log.append("edge", sample_event(number))
                if number % 500 == 0:
                    await asyncio.sleep(0)
            await until_reason(world, lambda said: said is not None and "does not answer" in said)
            assert replication.acked_rev == agent.acked.rev
            await postgres.start()
            # of the processor, which a busy machine does not lengthen
            back = time.process_time()
            async with asyncio.timeout(120):
                await replication.durable(log.head.rev)
            took = time.process_time() - back
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await client.close()
        print(f"{BUFFERED} events drained in {took:.2f} s")
        assert took <= DRAIN_WITHIN_S
        verdict = await world.verify(agent.spec.session_id)
        assert verdict["ok"] and verdict["events"] == log.head.rev
        await until_reason(world, lambda said: said is None)


def replicator(agent: AgentHand) -> tuple[SessionLog, LogReplicator, ControlClient]:
    """Return the real agent's log and replication, which go on where this hand is."""
    spec, clock = agent.spec, SystemClock()
    client = ControlClient(
        AgentStartParameters(
            agent_id=spec.agent_id,
            session_id=spec.session_id,
            epoch=spec.epoch,
            lease_token=spec.lease_token,
            endpoint=f"unix://{spec.socket_dir}/choir.sock",
            workspace=str(spec.workspace),
            choir_dir=str(spec.choir_dir),
        )
    )
    log = silent_log(spec.session_id, clock)
    log.restore(agent.log, agent.head)
    replication = LogReplicator(
        control=client,
        session_log=log,
        settings=FixedHeartbeatSettings(interval_s=5.0),
        clock=clock,
        agent_id=spec.agent_id,
        epoch=spec.epoch,
    )
    return log, replication, client


async def test_a_database_that_became_read_only_is_named_and_nothing_is_acknowledged() -> None:
    async with running_postgres() as postgres, choird_over(postgres.dsn) as world:
        agent = await begin(world)
        agent.add(sample_event())
        await set_read_only(postgres.dsn, "on")
        await until_reason(world, lambda said: said is not None and "read-only" in said)
        assert await status_of(agent) == 503
        await set_read_only(postgres.dsn, "off")
        await until_durable(world, agent)
        await until_reason(world, lambda said: said is None)


async def set_read_only(dsn: str, value: str) -> None:
    held = await asyncpg.connect(
        dsn, password=PASSWORD, server_settings={"default_transaction_read_only": "off"}
    )
    await held.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    await held.execute("SELECT pg_reload_conf()")
    await held.close()


async def test_a_slow_database_delays_and_a_silent_one_is_named() -> None:
    async with choird_behind_a_proxy() as (world, proxy, _):
        agent = await begin(world)
        proxy.delay_s = 0.3
        agent.add(sample_event())
        assert await status_of(agent) == 200
        assert await reason(world) is None
        proxy.delay_s = 0
        proxy.forwarding.clear()
        agent.add(sample_event())
        waiting = asyncio.create_task(status_of(agent))
        await until_reason(world, lambda said: said is not None and "respon" in said)
        assert not waiting.done()
        # clients get the reason long before the statement's own deadline
        refused = await world.get("/v1/agents", timeout=60)
        assert refused.status_code == 503 and refused.headers["retry-after"]
        # which of the two depends on whether others hold all connections by then
        detail = refused.json()["detail"]
        assert "Postgres hangs" in detail or "no connection was free" in detail
        # a half-open connection ends with a reset: the outcome is unknown, and sent again
        proxy.break_connections()
        assert await asyncio.wait_for(waiting, 60) == 503
        proxy.forwarding.set()
        await until_durable(world, agent)
        await until_reason(world, lambda said: said is None)


async def test_an_agent_outlives_a_silence_of_the_database_that_is_longer_than_its_own_may_be() -> (
    None
):
    async with (
        running_postgres() as postgres,
        choird_over(postgres.dsn, lost_s=LOST_S) as world,
    ):
        agent = await begin(world)
        holder = await asyncpg.connect(postgres.dsn, password=PASSWORD)
        for times in (1, 2):
            agent.add(sample_event())
            assert await status_of(agent) == 200
            async with holder.transaction():
                await holder.execute("LOCK TABLE choir_control.sessions IN ACCESS EXCLUSIVE MODE")
                # the round that judges silence waits for the database before the heartbeat does
                await asyncio.sleep(LOST_S / 2)
                agent.add(sample_event())
                beat = asyncio.create_task(status_of(agent))
                await asyncio.sleep(times * LOST_S)
            assert await beat == 200
            await until_durable(world, agent)
        await holder.close()
        assert (await world.session(agent.spec.session_id))["epoch"] == 1
        # who falls silent by itself is lost all the same
        assert (await world.agent(starts=2)).spec.epoch == 2


class DrivenClock(SystemClock):
    """A clock that the test moves on; it also goes on by itself."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


async def test_no_agent_is_lost_in_thirty_seconds_without_the_database_by_default() -> None:
    """Neither while it answers nothing nor while it is away, with the thresholds of an empty config.json."""
    clock = DrivenClock()
    async with (
        running_postgres() as postgres,
        choird_over(postgres.dsn, clock=clock, usual_thresholds=True) as world,
    ):
        agent = await begin(world)
        assert world.control is not None
        config = world.control.services.configuration.current.config
        suspect_s, lost_s = liveness_thresholds(config)
        assert (suspect_s, lost_s) == (7.5, 10.0)

        async with silent_sessions(postgres.dsn):
            pass  # the round that this one held back takes note of the agent
        async with silent_sessions(postgres.dsn):
            clock.ahead_s += 30
        await until_durable(world, agent)
        async with silent_sessions(postgres.dsn):
            agent.add(sample_event())
            beat = asyncio.create_task(status_of(agent))
            clock.ahead_s += 30
        assert await beat == 200

        await postgres.stop()
        for _ in range(3):
            agent.add(sample_event())
            assert await status_of(agent) == 503
            clock.ahead_s += 10
            await asyncio.sleep(SWEEP_S)
        await postgres.start()
        await until_durable(world, agent)
        assert (await world.session(agent.spec.session_id))["epoch"] == 1

        # one that is silent while all of Choir works is lost, in steps that no standstill could take
        for _ in range(round(lost_s / 2.5) + 1):
            clock.ahead_s += 2.5
            await asyncio.sleep(SWEEP_S)
        assert (await world.agent(starts=2)).spec.epoch == 2


@contextlib.asynccontextmanager
async def silent_sessions(dsn: str) -> AsyncIterator[None]:
    """Let no query of the sessions be answered, from the moment that the judge of silence waits for one."""
    holder = await asyncpg.connect(dsn, password=PASSWORD)
    observer = await asyncpg.connect(dsn, password=PASSWORD)

    async def judge_waits() -> bool:
        return bool(
            await observer.fetchval(
                "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
                "AND query LIKE 'SELECT session_id, agent_id%' AND query NOT LIKE '%$1%')"
            )
        )

    async with holder.transaction():
        await holder.execute("LOCK TABLE choir_control.sessions IN ACCESS EXCLUSIVE MODE")
        await until(judge_waits)
        yield
    await holder.close()
    await observer.close()


async def test_a_pool_without_a_free_connection_refuses_and_recovers() -> None:
    async with choird_behind_a_proxy() as (world, _, postgres):
        agent = await begin(world)
        # words, because heartbeats that tell of work alone share one statement, and one connection
        agent.say("to be delivered", kind="notice")
        holder = await asyncpg.connect(postgres.dsn, password=PASSWORD)
        lock = holder.transaction()
        await lock.start()
        await holder.execute("LOCK TABLE choir_control.sessions IN ACCESS EXCLUSIVE MODE")
        # more than the pool holds, all of the same patch: the first one stores it
        many = [
            asyncio.create_task(agent.post("HEARTBEAT", agent.heartbeat()))
            for _ in range(world.settings.database_connections + 4)
        ]
        await until_reason(world, lambda said: said is not None)
        refused = {answer.status_code for answer in await first_answers(many, 4)}
        assert refused == {503}
        await lock.rollback()
        await holder.close()
        statuses = {answer.status_code for answer in await asyncio.gather(*many)}
        assert statuses == {200, 503}
        agent.acked = agent.head
        agent.add(sample_event())
        await until_durable(world, agent)
        await until_reason(world, lambda said: said is None)


async def first_answers(tasks: list[asyncio.Task[object]], count: int) -> list[object]:
    async with asyncio.timeout(60):
        while sum(task.done() for task in tasks) < count:
            await asyncio.sleep(0.05)
    return [task.result() for task in tasks if task.done()]


@contextlib.asynccontextmanager
async def postgres_on_a_small_disk() -> AsyncIterator[tuple[EmbeddedPostgres, Path]]:
    """Start a Postgres whose disk is a tmpfs; skipped where none can be mounted."""
    root = Path(tempfile.mkdtemp(prefix="choir-pg-"))
    disk = root / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_BYTES},mode=0755", "choir-test", disk],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        shutil.rmtree(root)
        pytest.skip(f"NO TMPFS CAN BE MOUNTED HERE: a full disk is not tested ({mounted.stderr})")
    server = EmbeddedPostgres(
        PostgresPaths(disk / "data", root / "s", root / "postgres.log"), PASSWORD
    )
    try:
        await server.start()
        yield server, disk
    finally:
        await server.stop()
        subprocess.run(["umount", "-l", disk], check=True)
        shutil.rmtree(root, ignore_errors=True)


async def test_a_full_disk_is_named_and_what_waited_is_stored_when_there_is_room() -> None:
    async with postgres_on_a_small_disk() as (postgres, disk), choird_over(postgres.dsn) as world:
        agent = await begin(world)
        ballast = disk / "ballast"
        # leave a little: the write-ahead log recycles what it has, and the tables cannot grow
        free = shutil.disk_usage(disk).free
        with ballast.open("wb") as file:
            for _ in range(free // 65536):
                file.write(b"x" * 65536)
        statuses = []
        for number in range(400):
            for _ in range(10):
                agent.add(sample_event(number))
            statuses.append(await status_of(agent))
            if statuses[-1] != 200:
                break
        assert statuses[-1] == 503, "the disk never filled: this proved nothing"
        said = await reason(world)
        assert said and ("disk" in said or "does not answer" in said), said
        ballast.unlink()
        await until_durable(world, agent)
        await until_reason(world, lambda said: said is None)
