"""The durable log takes each event once, in order, from the one who holds the session."""

import asyncio
from datetime import datetime

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import Fenced, InvalidRequest, Unauthorized
from choir_common.eventlog.chain import LogHead, head_of, link_event
from choir_common.wire.events import Reply, SessionAbandoned, SessionResumed
from choir_common.wire.rpc import HeartbeatRequest, HeartbeatResponse
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until


async def ack(agent: AgentHand, request: HeartbeatRequest) -> int:
    answer = await agent.call("HEARTBEAT", request)
    return HeartbeatResponse.model_validate_json(answer).ack_rev


async def stored(world: World, agent: AgentHand) -> int:
    count = await world.database.fetchval(
        "SELECT count(*) FROM choir_control.session_events WHERE session_id = $1",
        agent.spec.session_id,
    )
    return int(count)


async def test_a_resent_heartbeat_is_acknowledged_without_effect(
    world: World, agent: AgentHand
) -> None:
    agent.say("once")
    request = agent.heartbeat()
    assert await ack(agent, request) == 2
    assert await ack(agent, request) == 2
    assert await world.delivered(1) == ["once"]
    await asyncio.sleep(0.3)
    assert world.gateway.texts == ["once"] and await stored(world, agent) == 2


@pytest.mark.usefixtures("wide_pools")
async def test_the_same_heartbeat_sent_at_once_many_times_is_stored_once(
    world: World, agent: AgentHand
) -> None:
    for number in range(5):
        agent.say(f"{number}")
    request = agent.heartbeat()
    acks = await asyncio.gather(*(ack(agent, request) for _ in range(10)))
    assert acks == [6] * 10
    assert await world.delivered(5) == ["0", "1", "2", "3", "4"]
    await asyncio.sleep(0.3)
    assert len(world.gateway.delivered) == 5 and await stored(world, agent) == 6


async def test_of_a_partly_applied_heartbeat_the_rest_is_appended(
    world: World, agent: AgentHand
) -> None:
    base = agent.acked
    agent.say("first")
    assert await ack(agent, agent.heartbeat()) == 2
    agent.say("second")
    both = agent.heartbeat(agent.log[1:], base)
    assert await ack(agent, both) == 3
    assert await world.delivered(2) == ["first", "second"]
    assert (await world.verify(agent.spec.session_id))["ok"]


async def test_a_gap_a_fork_and_an_old_epoch_are_fenced(world: World, agent: AgentHand) -> None:
    good = agent.say("good")
    await agent.flush()
    beyond = link_event(LogHead(good.rev + 3, "a" * 64), good.session_id, "edge", _words(), _now())
    with pytest.raises(Fenced, match="missing"):
        await ack(agent, agent.heartbeat([beyond], LogHead(good.rev + 3, "a" * 64)))

    twin = link_event(LogHead(1, agent.log[0].hash), good.session_id, "edge", _words(), _now())
    with pytest.raises(Fenced, match="fork"):
        await ack(agent, agent.heartbeat([twin], LogHead(1, agent.log[0].hash)))
    longer = link_event(head_of(twin), good.session_id, "edge", _words(), _now())
    with pytest.raises(Fenced, match="fork"):
        await ack(agent, agent.heartbeat([twin, longer], LogHead(1, agent.log[0].hash)))

    old = agent.heartbeat().model_copy(update={"epoch": 0})
    with pytest.raises(Fenced):
        await ack(agent, old)
    assert await stored(world, agent) == 2


async def test_the_token_of_an_old_epoch_is_fenced_and_writes_nothing(
    world: World, agent: AgentHand
) -> None:
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    await resumed.begin()
    assert resumed.spec.epoch == 2
    agent.say("from the grave")
    with pytest.raises(Fenced):
        await agent.flush()
    assert await stored(world, resumed) == 1


async def test_a_wrong_token_is_refused(world: World, agent: AgentHand) -> None:
    agent.headers["Authorization"] = "Bearer " + "x" * 43
    with pytest.raises(Unauthorized):
        await agent.flush()


async def test_events_that_contradict_themselves_are_refused(
    world: World, agent: AgentHand
) -> None:
    event = agent.say("hello")
    changed = event.model_copy(update={"payload": {**event.payload, "text": "changed"}})
    with pytest.raises(InvalidRequest, match="content does not match"):
        await ack(agent, agent.heartbeat([changed]).model_copy(update={"hash_new": changed.hash}))
    with pytest.raises(InvalidRequest, match="plus"):
        await ack(agent, agent.heartbeat().model_copy(update={"new_rev": 9}))
    unknown = event.model_copy(update={"type": "surprise"})
    assert unknown.type == "surprise"
    with pytest.raises(InvalidRequest):
        await ack(agent, agent.heartbeat([unknown]))


async def test_an_agent_speaks_to_its_own_dm_only_and_abandons_nothing(
    world: World, agent: AgentHand
) -> None:
    elsewhere = link_event(
        agent.head,
        agent.spec.session_id,
        "edge",
        Reply(turn_id=None, dm="second", text="psst", kind="notice"),
        _now(),
    )
    with pytest.raises(InvalidRequest, match="second"):
        await ack(agent, agent.heartbeat([elsewhere]))
    forged = link_event(
        agent.head,
        agent.spec.session_id,
        "edge",
        SessionAbandoned(dm="console", text="bye"),
        _now(),
    )
    with pytest.raises(InvalidRequest, match="only control"):
        await ack(agent, agent.heartbeat([forged]))
    assert await stored(world, agent) == 1


async def test_numbers_and_characters_come_back_as_they_were_hashed(
    world: World, agent: AgentHand
) -> None:
    agent.say("NUL \x00, 𝄞, \u2028, 1e16")
    agent.add(SessionResumed(epoch=1), "session")
    await agent.flush()
    assert (await world.verify(agent.spec.session_id))["ok"]
    assert await world.delivered(1) == ["NUL , 𝄞, \u2028, 1e16"]


CHANGES = (
    "payload = replace(payload::text, 'secret plan', 'secret plam')::json",
    "type = 'session_resumed'",
    "lane = 'core:x'",
    "at = replace(at, '2026', '2025')",
    "hash = translate(hash, '0123456789abcdef', '123456789abcdef0')",
    "hash_prev = reverse(hash_prev)",
    "payload = '[]'::json",
)
COLUMNS = "payload, type, lane, at, hash, hash_prev"
GOOD = f"({COLUMNS}) = (SELECT {COLUMNS} FROM public.good)"


async def test_a_flipped_bit_in_the_table_is_found(
    world: World, agent: AgentHand, subtests: pytest.Subtests
) -> None:
    session_id = agent.spec.session_id
    agent.say("a secret plan")
    agent.say("and another")
    await agent.flush()
    one = "choir_control.session_events SET {} WHERE session_id = $1 AND rev = 2"
    await world.database.execute(
        "CREATE TABLE public.good AS SELECT * FROM choir_control.session_events WHERE rev = 2"
    )
    for change in CHANGES:
        with subtests.test(change):
            assert (await world.verify(session_id))["ok"]
            await world.database.execute(f"UPDATE {one.format(change)}", session_id)
            found = await world.verify(session_id)
            assert not found["ok"] and found["broken_at"] in (2, 3)
        await world.database.execute(f"UPDATE {one.format(GOOD)}", session_id)


async def test_an_event_cut_off_the_end_is_found(world: World, agent: AgentHand) -> None:
    agent.say("one")
    agent.say("two")
    await agent.flush()
    await world.database.execute(
        "DELETE FROM choir_control.session_events WHERE session_id = $1 AND rev = 3",
        agent.spec.session_id,
    )
    found = await world.verify(agent.spec.session_id)
    assert not found["ok"] and found["broken_at"] == 3


async def test_a_heartbeat_without_events_is_a_sign_of_life(world: World, agent: AgentHand) -> None:
    async def last() -> object:
        return (await world.get("/v1/agents/main")).json()["last_heartbeat_at"]

    before = await last()
    assert await ack(agent, agent.heartbeat()) == agent.head.rev

    async def later() -> bool:
        return await last() != before

    await until(later)


def _words() -> Reply:
    return Reply(turn_id=None, dm="console", text="x", kind="notice")


def _now() -> datetime:
    return SystemClock().now()
