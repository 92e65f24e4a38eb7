"""A session has one holder, goes on after a crash, and ends once."""

import asyncio

import pytest

from choir_common.errors import ChoirError, Fenced
from choir_common.wire.operator import AgentView
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until

HELD_BY_MAIN = {"workspace:main": "main", "dm:console": "main", "browser_context:main": "main"}


async def leases(world: World) -> dict[str, str]:
    rows = await world.database.fetch("SELECT resource, agent_id FROM choir_control.leases")
    return {row["resource"]: row["agent_id"] for row in rows}


async def view(world: World, agent_id: str = "main") -> AgentView:
    return AgentView.model_validate_json((await world.get(f"/v1/agents/{agent_id}")).content)


async def stop_well(world: World, agent: AgentHand) -> None:
    """Stop an agent that obeys its shutdown signal."""
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    assert (await agent.next_signal()).body.kind == "shutdown"
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    answer = await stopping
    assert answer.status_code == 200, answer.text


async def test_exclusive_resources_are_leased_all_or_none(world: World, agent: AgentHand) -> None:
    assert await leases(world) == HELD_BY_MAIN
    refused = await world.post("/v1/agents/other/start")
    assert refused.status_code == 409
    assert "workspace:main is in use by agent main" in refused.json()["detail"]
    assert await leases(world) == HELD_BY_MAIN
    assert (await view(world, "other")).session_id is None

    elsewhere = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert elsewhere.status_code == 200, elsewhere.text
    assert (await leases(world))["workspace:spare"] == "other"
    twice = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert twice.status_code == 409


async def test_of_many_simultaneous_starts_one_wins(world: World) -> None:
    answers = await asyncio.gather(
        *(world.post("/v1/agents/other/start", json={"workspace": "spare"}) for _ in range(4)),
        *(world.post("/v1/agents/never/start", json={"dm": "second"}) for _ in range(4)),
    )
    assert sorted(a.status_code for a in answers) == [200] + [409] * 7


async def test_a_good_stop_closes_the_session_and_kills_its_token(
    world: World, agent: AgentHand
) -> None:
    await stop_well(world, agent)
    assert await leases(world) == {}
    assert (await view(world)).state == "stopped"
    for verb, body in (("HEARTBEAT", agent.heartbeat()), ("INIT_HELLO", agent.hello_body())):
        with pytest.raises(Fenced):
            await agent.call(verb, body)
    with pytest.raises(Fenced):
        await agent.next_signal()
    session = await world.session(agent.spec.session_id)
    assert session["status"] == "stopped" and session["ended_at"]
    assert (await world.post("/v1/agents/main/stop")).status_code == 409


async def test_the_token_is_dead_as_soon_as_terminate_self_returns(
    world: World, agent: AgentHand
) -> None:
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await agent.next_signal()
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    assert (await agent.post("HEARTBEAT", agent.heartbeat())).status_code == 409
    assert await leases(world) == {}
    world.runtime.die("main", 0)
    await stopping


async def stopped_in_a_turn(world: World, agent: AgentHand) -> str:
    """Stop the agent while it works on a message; return the message's id."""
    await world.say("do it", "1")
    message = await agent.next_message()
    await agent.take_up(message)
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    await until(lambda: _status(world, agent, "stopping"))
    world.runtime.die("main")
    assert (await stopping).json()["state"] == "stopped"
    return message.inbox_id


async def test_a_turn_that_is_open_at_a_stop_is_gone_on_with_by_the_next_start(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await stopped_in_a_turn(world, agent)
    assert (await world.session(agent.spec.session_id))["status"] == "suspended"
    assert await leases(world) == {}
    shown = await view(world)
    assert shown.session_id is None and shown.pid is None
    noted = await world.say("are you there?", "2")
    assert noted.note is not None and "is not running" in noted.note
    assert (await world.post("/v1/agents/main/start", json={})).status_code == 200
    again = await world.agent(starts=2)
    hello = await again.hello()
    assert (again.spec.session_id, hello.epoch) == (agent.spec.session_id, 2)
    assert hello.tail_events[-1].type == "user_msg"
    # it is not told to end again by the signal of the stop
    assert (await again.next_signal()).body.kind == "user_message"
    again.say("done", answers=inbox_id)
    await again.flush()
    [_, text] = await world.delivered(2)
    assert text == "done" and world.gateway.delivered[1].answers == inbox_id
    assert (await world.verify(agent.spec.session_id))["ok"]


async def test_a_stop_that_leaves_work_open_tells_the_user_once_that_it_is_kept(
    world: World, agent: AgentHand
) -> None:
    await stopped_in_a_turn(world, agent)
    [text] = await world.delivered(1)
    assert text.startswith("main was stopped with open work. It resumes the work")
    assert "choirctl agent start main" in text
    [row] = await world.database.fetch("SELECT dm, kind, answers FROM choir_control.outbox")
    assert tuple(row) == ("console", "notice", None)


async def test_a_stop_by_a_command_in_the_conversation_is_said_once_in_the_commands_answer(
    world: World, agent: AgentHand
) -> None:
    await world.say("do it", "1")
    await agent.take_up(await agent.next_message())
    stopping = asyncio.create_task(world.say("/stop", "2"))
    await until(lambda: _status(world, agent, "stopping"))
    world.runtime.die("main")
    note = (await stopping).note
    assert note is not None and note.startswith("main has stopped with open work")
    assert (await world.session(agent.spec.session_id))["status"] == "suspended"
    said = await world.database.fetch(
        "SELECT text FROM choir_control.outbox WHERE text LIKE '%The work is kept%'"
    )
    assert said == []


async def test_a_restart_in_a_turn_goes_on_with_the_same_session_without_a_word(
    world: World, agent: AgentHand
) -> None:
    await world.say("do it", "1")
    await agent.take_up(await agent.next_message())
    restarting = asyncio.create_task(world.post("/v1/agents/main/restart"))
    await until(lambda: _status(world, agent, "stopping"))
    world.runtime.die("main")
    assert (await restarting).json()["session_id"] == agent.spec.session_id
    assert (await world.agent(starts=2)).spec.epoch == 2
    assert await world.database.fetchval("SELECT count(*) FROM choir_control.outbox") == 0


async def test_a_second_stop_gives_the_open_work_up_and_tells_the_user(
    world: World, agent: AgentHand
) -> None:
    inbox_id = await stopped_in_a_turn(world, agent)
    assert (await world.post("/v1/agents/main/stop")).status_code == 200
    [_, text] = await world.delivered(2)
    assert "main was stopped before it finished" in text
    assert world.gateway.delivered[1].answers == inbox_id
    assert (await world.session(agent.spec.session_id))["status"] == "stopped"
    assert (await world.post("/v1/agents/main/stop")).status_code == 409


async def test_a_crashed_agent_goes_on_under_the_next_epoch(world: World, agent: AgentHand) -> None:
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    answer = await resumed.hello()
    assert (resumed.spec.session_id, resumed.spec.epoch) == (agent.spec.session_id, 2)
    assert answer.status == "resumed" and answer.head_rev == 1
    assert resumed.spec.lease_token != agent.spec.lease_token
    assert await leases(world) == HELD_BY_MAIN


async def test_a_session_is_resumed_three_times_then_abandoned_and_the_user_told_once(
    world: World, agent: AgentHand
) -> None:
    await world.say("poison", "1")
    await world.say("behind it", "2")
    hand = agent
    for start in range(2, 5):
        await hand.take_up_if_new()
        world.runtime.die("main")
        hand = await world.agent(starts=start)
        await hand.begin()
    world.runtime.die("main")
    await world.until_status(agent.spec.session_id, "abandoned")
    texts = await world.delivered(1)
    assert "crashed 4 times in a row" in texts[0] and "Your last 2 messages" in texts[0]
    await asyncio.sleep(2.5)
    assert len(world.gateway.delivered) == 1 and len(world.runtime.specs) == 4
    assert await leases(world) == {}
    events = (await world.get(f"/v1/sessions/{agent.spec.session_id}/events")).json()["items"]
    assert events[-1]["type"] == "session_abandoned" and events[-1]["lane"] == "control"
    assert len(events[-1]["payload"]["answers"]) == 2
    assert (await world.verify(agent.spec.session_id))["ok"]
    assert (await view(world)).state == "crashed" and (await view(world)).queued_messages == 0

    await world.post("/v1/agents/main/start")
    fresh = await world.agent(starts=5)
    assert fresh.spec.session_id != agent.spec.session_id and fresh.spec.epoch == 1


async def test_a_completed_turn_gives_all_resumes_back(world: World, agent: AgentHand) -> None:
    hand = agent
    for start in range(2, 8):
        await world.say(f"{start}", f"u{start}")
        message = await hand.next_message()
        await hand.take_up(message)
        await hand.reply("done", answers=message.inbox_id)
        world.runtime.die("main")
        hand = await world.agent(starts=start)
        await hand.begin()
    assert (await view(world)).state == "running"


async def begun_and_soon_lost(stopped: World) -> AgentHand:
    """Start a choird that takes a silent agent for lost after 3 s; return `main`, introduced."""
    stopped.lose_after(3)
    await stopped.start()
    agent = await stopped.agent()
    await agent.begin()
    return agent


async def test_a_silent_agent_is_ended_and_resumed(stopped: World) -> None:
    agent = await begun_and_soon_lost(stopped)
    resumed = await stopped.agent(starts=2)
    assert resumed.spec.epoch == 2
    with pytest.raises(Fenced):
        await agent.flush()


async def test_an_agent_with_restart_never_waits_for_a_person(world: World) -> None:
    await world.post("/v1/agents/never/start", json={"dm": "second"})
    first = await world.agent(starts=2)
    await first.begin()
    world.runtime.die("never")
    await world.until_status(first.spec.session_id, "crashed")
    await asyncio.sleep(1.5)
    assert "never" not in world.runtime.alive
    await world.post("/v1/agents/never/start")
    again = world.hand(world.runtime.alive["never"])
    assert (again.spec.session_id, again.spec.epoch) == (first.spec.session_id, 2)


async def test_an_agent_that_cannot_be_started_is_tried_again(stopped: World) -> None:
    await stopped.start()
    stopped.runtime.refuse_starts = True
    refused = await stopped.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert refused.status_code == 503 and "engine" in refused.json()["detail"]
    stopped.runtime.refuse_starts = False

    async def started() -> bool:
        return "other" in stopped.runtime.alive

    await until(started)


async def test_sessions_go_on_after_a_restart_of_control(world: World, agent: AgentHand) -> None:
    for epoch in range(2, 8):
        await world.stop()
        await world.start()
        agent = await world.agent()
        await agent.hello()
        assert agent.spec.epoch == epoch
    assert len((await world.get("/v1/sessions")).json()["items"]) == 1


async def test_an_agent_that_ends_itself_unasked_is_started_again(
    world: World, agent: AgentHand
) -> None:
    await agent.call("TERMINATE_SELF", b'{"reason":"confused"}')
    with pytest.raises(ChoirError):
        await agent.flush()
    world.runtime.die("main", 1)
    resumed = await world.agent(starts=2)
    assert resumed.spec.epoch == 2


async def test_unknown_agents_and_names_are_named(world: World) -> None:
    assert (await world.post("/v1/agents/nobody/start")).status_code == 404
    answer = await world.post("/v1/agents/other/start", json={"workspace": "nowhere"})
    assert answer.status_code == 400 and "main, spare" in answer.json()["detail"]
    assert (await world.post("/v1/agents/other/start", json={"x": 1})).status_code == 400


async def _status(world: World, agent: AgentHand, status: str) -> bool:
    return bool((await world.session(agent.spec.session_id))["status"] == status)


async def test_a_stop_that_was_cut_off_is_finished_by_the_sweep(stopped: World) -> None:
    agent = await begun_and_soon_lost(stopped)
    await stopped.database.execute("UPDATE choir_control.sessions SET status = 'stopping'")
    await stopped.until_status(agent.spec.session_id, "suspended")
    assert await leases(stopped) == {} and stopped.runtime.alive == {}
