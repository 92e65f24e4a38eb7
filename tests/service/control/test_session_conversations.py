"""A session serves several conversations: one stream of signals in order, whatever is bound when."""

import asyncio

import pytest

from choir_common.errors import Conflict
from choir_common.wire.signals import CancelSignal, ConfigChangedSignal, UserMessageSignal
from choir_control.agents.sessions.conversation_binder import ConversationBinder
from choir_control.agents.sessions.record import SessionRow
from tests.service.control.agent_hand import AgentHand
from tests.service.control.shared_sessions import is_leased, serve
from tests.service.control.test_inbox import offered
from tests.service.control.world import World, until


def binder(world: World) -> ConversationBinder:
    return world.control.services.sessions.conversation_binder


async def row(world: World, agent: AgentHand) -> SessionRow:
    session = await world.control.services.sessions.store.get(agent.spec.session_id)
    assert session is not None
    return session


async def test_the_messages_of_all_conversations_are_offered_in_the_order_they_came(
    world: World, agent: AgentHand
) -> None:
    await serve(world, "second")
    dms = ["console", "second", "second", "console"] * 4
    for number, dm in enumerate(dms):
        accepted = await world.say(f"{number}", f"u{number}", dm)
        assert (accepted.agent_id, accepted.agent_state) == ("main", "running")
    assert await offered(agent, len(dms)) == [f"{number}" for number in range(len(dms))]


async def test_concurrent_signals_of_all_conversations_reach_a_stream_without_a_gap(
    world: World, agent: AgentHand
) -> None:
    session = await row(world, agent)
    await serve(world, "second")
    sender = world.control.services.sessions.signal_sender

    async def send(number: int) -> None:
        if number % 3 == 2:
            await sender.send(session, CancelSignal())
        else:
            await world.say(f"{number}", f"u{number}", ("console", "second")[number % 3])

    seen: list[int] = []
    async with agent.signals() as stream:
        sending = asyncio.gather(*(send(number) for number in range(60)))
        async with asyncio.timeout(60):
            async for signal in stream:
                seen.append(signal.seq)
                if len(seen) == 60:
                    break
        await sending
    assert seen == sorted(set(seen))


async def test_messages_that_waited_for_a_binding_arrive_on_the_stream_that_is_opened_again(
    world: World, agent: AgentHand
) -> None:
    for text in ("early", "earlier than the binding"):
        await world.say(text, text, "second")
    await world.say("at home", "1")
    async with asyncio.timeout(60), agent.signals() as stream:
        first = await anext(stream)
        await serve(world, "second")
        # the stream ends; what it read while the conversation was bound may still come on it
        rest = [signal async for signal in stream if isinstance(signal.body, UserMessageSignal)]
    assert isinstance(first.body, UserMessageSignal) and first.body.text == "at home"
    texts = [signal.body.text for signal in rest if isinstance(signal.body, UserMessageSignal)]
    if not rest:
        texts = await offered(agent, 2, after=first.seq)
    assert texts == ["early", "earlier than the binding"]


async def test_a_stream_gets_a_message_of_a_further_conversation_at_once(
    world: World, agent: AgentHand
) -> None:
    await serve(world, "second")
    async with asyncio.timeout(60), agent.signals() as stream:
        await world.say("hello", "1", "second")
        bodies = [(await anext(stream)).body for _ in range(2)]
    assert isinstance(bodies[0], ConfigChangedSignal)
    assert isinstance(bodies[1], UserMessageSignal) and bodies[1].dm == "second"


async def test_what_was_taken_up_in_a_further_conversation_is_not_offered_again(
    world: World, agent: AgentHand
) -> None:
    await serve(world, "second")
    await world.say("one", "1", "second")
    await world.say("two", "2", "second")
    await agent.take_up(await agent.next_message())
    assert await offered(agent, 1) == ["two"]
    consumed = await world.database.fetch(
        "SELECT text FROM choir_control.inbox WHERE session_id = $1", agent.spec.session_id
    )
    assert [entry["text"] for entry in consumed] == ["one"]


async def test_a_conversation_belongs_to_one_session_until_it_is_unbound(
    world: World, agent: AgentHand
) -> None:
    session = await row(world, agent)
    await serve(world, "second")
    with pytest.raises(Conflict, match="dm:second is in use by agent main"):
        await binder(world).bind(session, "second", "bot")
    await serve(world)
    assert not await is_leased(world, "second")
    await world.say("kept", "1", "second")
    accepted = await world.say("kept, too", "2", "second")
    assert accepted.agent_state == "stopped"  # its own agent does not run
    await world.say("at home", "3")
    assert await offered(agent, 1) == ["at home"]
    await serve(world, "second")
    assert await offered(agent, 3) == ["at home", "kept", "kept, too"]


async def test_the_conversations_of_a_session_outlive_a_crash_and_a_restart_of_control(
    world: World, agent: AgentHand
) -> None:
    await serve(world, "second")
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    await resumed.hello()
    assert await is_leased(world, "second")
    await world.say("after the crash", "1", "second")
    assert await offered(resumed, 1) == ["after the crash"]
    await world.stop()
    await world.start()
    again = await world.agent()
    await again.hello()
    assert again.spec.session_id == agent.spec.session_id
    locks = world.control.services.log.signal_locks
    assert locks.conversations_of("console") == ("console", "second")
    await until(lambda: is_leased(world, "second"))
    assert await offered(again, 1) == ["after the crash"]
