"""An agent that is paused or cut off is suspect, then lost and fenced, by no clock that jumps (R8, R9)."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_control.agents.runtimes.process.runtime import ProcessRuntime
from choir_testing.rehearsal import run_rehearsal
from tests.service.control.agent_hand import AgentHand
from tests.service.control.cut_line import cut_line
from tests.service.control.test_real_agent import pid_of
from tests.service.control.test_sessions import HELD_BY_MAIN, leases
from tests.service.control.world import World, until

LOST_S = 3.0  # of this module's worlds


async def is_suspect(world: World) -> bool:
    return bool((await world.get("/v1/agents/main")).json()["suspect"])


async def keep_alive(world: World, agent: AgentHand, seconds: float) -> None:
    """Send heartbeats for a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await agent.flush()
        await asyncio.sleep(0.3)


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird that soon takes a silent agent for lost."""
    stopped.lose_after(LOST_S)
    await stopped.start()
    return stopped


@pytest.fixture
async def real(stopped: World) -> AsyncIterator[World]:
    """A ready choird whose agent `main` is a real process that rehearses, and is lost when others are."""
    async with run_rehearsal() as model:
        path = stopped.settings.config_file
        config = json.loads(path.read_text())
        config["models"]["default"]["endpoint"] = model
        for name in ("heartbeat_interval_ms", "crash_detection_threshold_ms"):
            del config[name]
        path.write_text(json.dumps(config))
        await stopped.start(ProcessRuntime(stopped.home, os.environ))
        yield stopped
        await stopped.stop()


async def test_a_paused_process_is_suspect_then_lost_and_another_goes_on(real: World) -> None:
    first = await pid_of(real)
    await real.say("hello", "1")
    await real.delivered(1)
    os.kill(first, signal.SIGSTOP)
    await until(lambda: is_suspect(real))

    async def another() -> bool:
        view = (await real.get("/v1/agents/main")).json()
        return bool(view["pid"] and view["pid"] != first and view["state"] == "running")

    async def gone() -> bool:
        return not Path(f"/proc/{first}").exists()

    await until(gone)
    await until(another)
    assert not await is_suspect(real)
    await real.say("are you there?", "2")
    await real.delivered(2)
    session = (await real.get("/v1/agents/main")).json()["session_id"]
    assert (await real.verify(session))["ok"]


async def test_what_a_cut_off_agent_sends_is_refused_once_it_is_lost(
    world: World, agent: AgentHand
) -> None:
    async with cut_line(world.settings.http_port) as line:
        ghost = world.hand(agent.spec, f"http://127.0.0.1:{line.port}")
        ghost.head = ghost.acked = agent.head
        await keep_alive(world, ghost, 1)
        line.cut()
        ghost.say("from beyond the cut", kind="notice")
        held_back = asyncio.create_task(ghost.post("HEARTBEAT", ghost.heartbeat()))
        await until(lambda: is_suspect(world))
        resumed = await world.agent(starts=2)
        hello = await resumed.hello()
        assert hello.head_rev == agent.head.rev and await leases(world) == HELD_BY_MAIN
        line.mend()
        assert (await held_back).status_code == 409
        for _ in range(3):
            assert (await ghost.post("HEARTBEAT", ghost.heartbeat())).status_code == 409
    assert (await world.session(agent.spec.session_id))["head_rev"] == hello.head_rev
    assert world.gateway.texts == []


async def test_a_line_that_mends_before_the_agent_is_lost_costs_nothing(
    world: World, agent: AgentHand
) -> None:
    async with cut_line(world.settings.http_port) as line:
        hand = world.hand(agent.spec, f"http://127.0.0.1:{line.port}")
        hand.head = hand.acked = agent.head
        await keep_alive(world, hand, 0.5)
        line.cut()
        late = asyncio.create_task(hand.flush())
        await until(lambda: is_suspect(world))
        line.mend()
        await late
        assert not await is_suspect(world)
        await keep_alive(world, hand, 1)
    assert (await world.session(agent.spec.session_id))["epoch"] == 1


async def set_clock(world: World, jump: str) -> None:
    """Move every time the database ever noted for choird, as if its clock had been set the other way."""
    columns = await world.database.fetch(
        "SELECT table_name AS t, "
        "string_agg(format('%1$I = %1$I + $1::text::interval', column_name), ', ') AS moved"
        " FROM information_schema.columns WHERE table_schema = 'choir_control'"
        " AND data_type = 'timestamp with time zone' GROUP BY 1"
    )
    assert {row["t"] for row in columns} >= {"sessions", "leases", "signals", "outbox"}
    for row in columns:
        await world.database.execute(f"UPDATE choir_control.{row['t']} SET {row['moved']}", jump)


@pytest.mark.parametrize("jump", [pytest.param("-30 days", marks=pytest.mark.nightly), "1 day"])
async def test_a_jump_of_the_databases_clock_ends_nobody_and_saves_nobody(
    world: World, agent: AgentHand, jump: str
) -> None:
    """It jumps again and again, for longer than a silent agent has."""
    accepted = await world.say("said before the clock was set", "1")
    held = await leases(world)
    stop_at = time.monotonic() + LOST_S + 2
    async with agent.beating():
        while time.monotonic() < stop_at:
            await set_clock(world, jump)
            await asyncio.sleep(0.3)
    assert (await world.session(agent.spec.session_id))["epoch"] == 1
    assert await leases(world) == held
    waiting = await agent.next_message()
    assert waiting.inbox_id == accepted.inbox_id
    # and who falls silent is lost all the same
    await set_clock(world, jump)
    assert (await world.agent(starts=2)).spec.epoch == 2


async def test_a_resume_does_not_wait_for_a_clock_that_was_set_back(
    world: World, agent: AgentHand
) -> None:
    world.runtime.refuse_starts = True
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "crashed")
    await world.database.execute(
        "UPDATE choir_control.sessions SET resume_at = clock_timestamp() + interval '1 hour', resumes = 0"
    )
    world.runtime.refuse_starts = False
    assert (await world.agent(starts=2)).spec.session_id == agent.spec.session_id


async def test_lives_that_each_complete_something_are_counted_until_a_user_speaks(
    world: World, agent: AgentHand
) -> None:
    hand, starts = agent, 1
    for _ in range(8):
        await hand.reply("a report nobody asked for", kind="report")
        world.runtime.die("main")
        starts += 1
        hand = await world.agent(starts)
        await hand.hello()
    await hand.reply("one more", kind="report")
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "abandoned")
    assert await leases(world) == {}


async def test_crashes_of_a_session_that_a_user_speaks_to_are_not_counted_together(
    world: World, agent: AgentHand
) -> None:
    idle = "UPDATE choir_control.sessions SET idle_resumes = 8"
    await world.database.execute(idle)
    await world.say("hello", "1")
    message = await agent.next_message()
    await agent.take_up(message)
    await agent.reply("hello", answers=message.inbox_id)
    world.runtime.die("main")
    assert (await world.agent(2)).spec.session_id == agent.spec.session_id
