"""A session ends by inactivity where that is configured, and its agent continues in a new one."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from choir_common.wire.events import CoreStarted, TurnParked
from choir_control.agents.sessions.record import REASON_IDLE
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_suspended import apply, edit
from tests.service.control.world import World, until


async def let_it_be(world: World, minutes: int) -> None:
    """Let everything that happened so far be so much longer ago."""
    await world.database.execute(
        "UPDATE choir_control.session_events SET stored_at = stored_at - make_interval(mins => $1)",
        minutes,
    )


async def sweep(world: World) -> None:
    assert world.control is not None
    await world.control.services.sessions.idle_ender.sweep()


async def configure(world: World, **idle_end: int) -> None:
    def change(config: dict[str, Any]) -> None:
        config["agents"]["main"]["idle_end"] = idle_end

    edit(world, change)
    await apply(world)


async def talk(world: World, agent: AgentHand) -> None:
    await world.say("hello", "1")
    message = await agent.next_message()
    await agent.take_up(message)
    await agent.reply("good day", answers=message.inbox_id)


async def leave_well(world: World, agent: AgentHand) -> None:
    """Let the agent end as its shutdown signal asks."""
    await world.until_status(agent.spec.session_id, "stopping")
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)


async def test_an_idle_session_ends_and_the_next_message_is_answered_in_one_that_continues_it(
    world: World, agent: AgentHand
) -> None:
    await configure(world)
    await talk(world, agent)
    await let_it_be(world, 19)
    await sweep(world)
    assert (await world.session(agent.spec.session_id))["status"] == "active"
    await let_it_be(world, 1)
    sweeping = asyncio.create_task(sweep(world))
    await leave_well(world, agent)
    await sweeping
    ended = await world.session(agent.spec.session_id)
    assert (ended["status"], ended["ended_at"] is None) == ("stopped", False)
    again = await world.agent(starts=2)
    await again.begin()
    assert again.spec.session_id != agent.spec.session_id
    assert (await world.session(again.spec.session_id))["continues"] == agent.spec.session_id
    # nothing was said in the new one: it is not replaced in its turn
    await let_it_be(world, 60)
    await sweep(world)
    assert len(world.runtime.specs) == 2
    await world.say("and now?", "2")
    assert (await again.next_message()).text == "and now?"


async def test_a_message_during_the_end_is_answered_in_the_next_session(
    world: World, agent: AgentHand
) -> None:
    await configure(world, after_ms=60_000)
    await talk(world, agent)
    await let_it_be(world, 2)
    sweeping = asyncio.create_task(sweep(world))
    await world.until_status(agent.spec.session_id, "stopping")
    accepted = await world.say("just in time", "2")
    await leave_well(world, agent)
    await sweeping
    again = await world.agent(starts=2)
    await again.begin()
    message = await again.next_message()
    assert (message.inbox_id, message.text) == (accepted.inbox_id, "just in time")


async def test_without_the_setting_no_session_ends_by_itself(
    world: World, agent: AgentHand
) -> None:
    await talk(world, agent)
    await let_it_be(world, 10_000)
    await sweep(world)
    assert (await world.session(agent.spec.session_id))["status"] == "active"


NIGHTLY = pytest.mark.nightly  # they are work like the other three


@pytest.mark.parametrize(
    "open_work",
    [
        "message",
        pytest.param("parked turn", marks=NIGHTLY),
        pytest.param("approval", marks=NIGHTLY),
        "decision",
        "job",
        pytest.param("reply", marks=NIGHTLY),
    ],
)
async def test_a_session_with_open_work_is_not_idle_until_the_work_is_done(
    world: World, agent: AgentHand, open_work: str
) -> None:
    await configure(world, after_ms=60_000)
    await talk(world, agent)
    session_id = agent.spec.session_id
    finish = await begin_work(world, agent, open_work)
    await let_it_be(world, 30)
    await sweep(world)
    assert (await world.session(session_id))["status"] == "active"
    await world.database.execute(finish)
    await let_it_be(world, 30)
    sweeping = asyncio.create_task(sweep(world))
    await leave_well(world, agent)
    await sweeping
    assert (await world.session(session_id))["status"] == "stopped"


async def begin_work(world: World, agent: AgentHand, open_work: str) -> str:
    """Begin a kind of work; return the statement that finishes it."""
    request = (
        "INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, call_id, "
        "request_type, payload, status, resolved_at) VALUES ('a', $1, 'main', 'c', 'tool', '{}', $2, $3)"
    )
    decided = (
        "UPDATE choir_control.pending_approvals SET status = 'approved', "
        "resolved_at = now() - interval '1 hour'"
    )
    match open_work:
        case "message":
            await world.say("one more", "2")
            return "UPDATE choir_control.inbox SET closed_at = now()"
        case "parked turn":
            await world.say("one more", "2")
            turn_id = await agent.take_up(await agent.next_message())
            agent.add(TurnParked(turn_id=turn_id))
            await agent.flush()
            return "UPDATE choir_control.inbox SET answered_rev = consumed_rev"
        case "approval":
            await world.database.execute(request, agent.spec.session_id, "pending", None)
            return decided
        case "decision":
            now = datetime.now(UTC)
            await world.database.execute(request, agent.spec.session_id, "approved", now)
            return decided
        case "job":
            job = CoreStarted(
                job_id="j1", job_name="dig", call_id="c", dm="console", task_spec="Dig."
            )
            agent.add(job)
            await agent.flush()
            return "UPDATE choir_control.session_events SET type = 'x' WHERE type = 'core_started'"
        case _:
            await world.delivered(1)

            async def is_stored() -> bool:
                status = await world.database.fetchval("SELECT status FROM choir_control.outbox")
                return bool(status == "delivered")

            await until(is_stored)
            await world.database.execute("UPDATE choir_control.outbox SET status = 'sending'")
            return "UPDATE choir_control.outbox SET status = 'delivered'"


async def test_an_agent_that_was_not_started_again_is_by_the_next_sweep(
    world: World, agent: AgentHand
) -> None:
    await configure(world, after_ms=60_000)
    await talk(world, agent)
    assert world.control is not None
    stopper = world.control.services.sessions.stopper
    # control ended the session and came no further
    stopping = asyncio.create_task(stopper.stop("main", REASON_IDLE))
    await leave_well(world, agent)
    await stopping
    await sweep(world)
    again = await world.agent(starts=2)
    assert again.spec.session_id != agent.spec.session_id


async def test_a_session_that_came_after_the_idle_one_is_not_ended(
    world: World, agent: AgentHand
) -> None:
    assert world.control is not None
    stopper = world.control.services.sessions.stopper
    assert await stopper.stop("main", REASON_IDLE, "ses_before") is None
    assert (await world.session(agent.spec.session_id))["status"] == "active"
