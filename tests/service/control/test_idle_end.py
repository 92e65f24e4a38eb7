"""A session ends by inactivity where that is configured, and its agent continues in a new one."""

import asyncio
from typing import Any

import pytest

from choir_control.agents.sessions.record import REASON_IDLE
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_suspended import apply, edit
from tests.service.control.world import World


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


async def test_without_the_setting_no_session_ends_by_itself(
    world: World, agent: AgentHand
) -> None:
    await talk(world, agent)
    await let_it_be(world, 10_000)
    await sweep(world)
    assert (await world.session(agent.spec.session_id))["status"] == "active"


@pytest.mark.parametrize("open_work", ["message", "approval", "job"])
async def test_a_session_with_open_work_is_not_idle(
    world: World, agent: AgentHand, open_work: str
) -> None:
    await configure(world, after_ms=60_000)
    await talk(world, agent)
    session_id = agent.spec.session_id
    match open_work:
        case "message":
            await world.say("one more", "2")
        case "approval":
            await world.database.execute(
                "INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, "
                "call_id, request_type, payload) VALUES ('a', $1, 'main', 'c', 'tool', '{}')",
                session_id,
            )
        case _:
            await world.database.execute(
                "UPDATE choir_control.session_events SET type = 'core_started', "
                """payload = '{"job_id": "j1", "job_name": "dig"}' """
                "WHERE session_id = $1 AND type = 'reply'",
                session_id,
            )
    await let_it_be(world, 30)
    await sweep(world)
    assert (await world.session(session_id))["status"] == "active"


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
