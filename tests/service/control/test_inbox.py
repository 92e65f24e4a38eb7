"""What a channel was told is received is offered to an agent until a log has taken it up."""

import asyncio
import contextlib

import pytest

from choir_common.clients.control import NatsControlClient
from choir_common.errors import Conflict, Fenced, NotFound, RateLimited
from choir_common.wire.attachments import Attachment
from choir_common.wire.messages import HistoryRequest
from choir_common.wire.signals import ConfigChangedSignal, UserMessageSignal
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import MODEL_KEY, World, a_message, until


async def offered(agent: AgentHand, count: int, after: int | None = None) -> list[str]:
    """Return the texts of the first `count` messages of a fresh connection."""
    texts: list[str] = []
    async with asyncio.timeout(60), agent.signals(after) as stream:
        async for signal in stream:
            if isinstance(signal.body, ConfigChangedSignal):
                continue
            assert isinstance(signal.body, UserMessageSignal)
            texts.append(signal.body.text)
            if len(texts) == count:
                break
    return texts


async def test_a_message_is_stored_once_however_often_it_comes(
    world: World, agent: AgentHand
) -> None:
    first = await world.say("hello", "7")
    assert not first.duplicate
    again = await asyncio.gather(*(world.say("hello", "7") for _ in range(5)))
    assert all(a.duplicate and a.inbox_id == first.inbox_id for a in again)
    twins = await asyncio.gather(*(world.say("twin", "8") for _ in range(8)))
    assert sum(not twin.duplicate for twin in twins) == 1
    assert len({twin.inbox_id for twin in twins}) == 1
    assert await offered(agent, 2) == ["hello", "twin"]


async def test_a_secret_that_a_user_types_is_stored_nowhere(world: World, agent: AgentHand) -> None:
    inbox = NatsControlClient(world.bus)
    file = Attachment(name=f"{MODEL_KEY}.txt", kind="document", ref="1")
    for message in (
        a_message(f"my key is {MODEL_KEY}!", "1"),
        a_message("this one?", "2", quoted=f"key {MODEL_KEY}", reply_to="9"),
        a_message("", "3", attachments=(file,)),
        a_message(f"/inject use {MODEL_KEY}", "4"),
        a_message(f"/approve {MODEL_KEY}", "5"),
    ):
        await inbox.accept(message)
    assert await offered(agent, 1) == ["my key is [redacted]!"]
    for table in ("inbox", "signals", "outbox"):
        rows = await world.database.fetch(f"SELECT t::text FROM choir_control.{table} AS t")
        assert MODEL_KEY not in str([row["t"] for row in rows]), table
    texts = await world.database.fetch("SELECT text FROM choir_control.inbox ORDER BY seq")
    assert [row["text"] for row in texts][:2] == ["my key is [redacted]!", "this one?"]


async def test_another_text_under_a_key_of_the_console_is_a_conflict_and_changes_nothing(
    world: World, agent: AgentHand
) -> None:
    first = await world.say("hello", "7")
    for other in ("TERMINATE_SELF", "/compact"):
        with pytest.raises(Conflict, match="key of its own"):
            await world.say(other, "7")
    assert (await world.say("hello", "7")).inbox_id == first.inbox_id
    await world.say("next", "8")
    assert await offered(agent, 2) == ["hello", "next"]


async def test_a_message_may_be_repeated_after_a_secret_in_it_became_known_or_was_replaced(
    stopped: World,
) -> None:
    others = {name: value for name, value in stopped.secrets.secrets.items() if name != "key"}
    told, retold = dict(stopped.secrets.secrets), {**others, "key": "sk-another-key-of-the-test"}
    text = f"my key is {MODEL_KEY}, not {MODEL_KEY}!"
    for number, values in enumerate((told, retold, told)):
        stopped.secrets = stopped.secrets.model_copy(update={"secrets": values})
        stopped.hurry.clear()
        await stopped.start()
        first = await stopped.say(text, "7")
        assert first.duplicate is (number > 0)
        assert (await stopped.say(text, f"of start {number}")).duplicate is False
        if number:
            assert (await stopped.say(text, f"of start {number - 1}")).duplicate
        with pytest.raises(Conflict, match="key of its own"):
            await stopped.say(f"No, {text}", "7")
        await stopped.stop()


async def test_messages_are_offered_in_the_order_they_came(world: World, agent: AgentHand) -> None:
    for number in range(20):
        await world.say(f"{number}", f"u{number}")
    assert await offered(agent, 20) == [f"{number}" for number in range(20)]


async def test_a_stream_gets_a_new_message_at_once_and_resumes_after_the_last_one(
    world: World, agent: AgentHand
) -> None:
    async with agent.signals() as stream:
        await world.say("one", "1")
        first = await asyncio.wait_for(anext(stream), 60)
        await world.say("two", "2")
        second = await asyncio.wait_for(anext(stream), 60)
    assert second.seq > first.seq
    assert await offered(agent, 1, after=first.seq) == ["two"]
    assert await offered(agent, 2) == ["one", "two"]


async def test_after_a_crash_only_what_was_not_taken_up_is_offered_again(
    world: World, agent: AgentHand
) -> None:
    for number in range(4):
        await world.say(f"{number}", f"u{number}")
    await agent.take_up(await agent.next_message())
    world.runtime.die("main")
    resumed = await world.agent(starts=2)
    answer = await resumed.hello()
    assert [e.type for e in answer.tail_events] == ["session_started", "user_msg"]
    assert await offered(resumed, 3) == ["1", "2", "3"]


async def test_a_message_for_a_stopped_agent_is_kept_for_its_next_session(
    world: World, agent: AgentHand
) -> None:
    stopping = asyncio.create_task(world.post("/v1/agents/main/stop"))
    signal = await agent.next_signal()
    assert signal.body.kind == "shutdown"
    await agent.call("TERMINATE_SELF", b'{"reason":"asked"}')
    world.runtime.die("main", 0)
    assert (await stopping).json()["state"] == "stopped"

    kept = await world.say("are you there?", "1")
    assert kept.agent_state == "stopped" and "choirctl agent start main" in (kept.note or "")
    assert (await world.get("/v1/agents/main")).json()["queued_messages"] == 1
    # two agents have this conversation as their default: the one that held it last is named
    await world.database.execute("UPDATE choir_control.sessions SET agent_id = 'never'")
    assert "never is not running" in ((await world.say("and you?", "2")).note or "")
    await world.database.execute("UPDATE choir_control.sessions SET agent_id = 'main'")
    await world.post("/v1/agents/main/start")
    fresh = await world.agent(starts=2)
    answer = await fresh.hello()
    assert answer.status == "fresh" and answer.continues == agent.spec.session_id
    assert await offered(fresh, 2) == ["are you there?", "and you?"]


async def test_messages_survive_a_restart_of_control(world: World, agent: AgentHand) -> None:
    await world.say("before", "1")
    await world.stop()
    await world.start()
    resumed = await world.agent()
    assert resumed.spec.session_id == agent.spec.session_id and resumed.spec.epoch == 2
    await resumed.begin()
    assert await offered(resumed, 1) == ["before"]
    assert (await world.say("before", "1")).duplicate


async def test_an_unknown_dm_or_one_of_another_gateway_is_refused(world: World) -> None:
    with pytest.raises(NotFound):
        await world.say("hello", "1", dm="nobody")
    table = await NatsControlClient(world.bus).channels()
    assert {dm.name: dm.gateway for dm in table.dms} == {"console": "console", "second": "bot"}


async def test_channels_are_told_the_commands_of_the_one_table(world: World) -> None:
    table = await NatsControlClient(world.bus).channels()
    of_all = {command.name: command.admin for command in table.commands}
    assert len(of_all) == len(table.commands)
    assert of_all["/status"] is False and of_all["/model"] is False and of_all["/config"] is True


async def test_a_dm_without_a_running_agent_says_who_would_answer(world: World) -> None:
    accepted = await world.say("hi", "1", dm="second")
    assert (accepted.agent_id, accepted.agent_state) == ("other", "stopped")


async def test_a_superseded_stream_ends_and_its_token_is_fenced(
    world: World, agent: AgentHand
) -> None:
    async with agent.signals() as stream:
        world.runtime.die("main")
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(anext(stream), 60)
    with pytest.raises(Fenced):
        await agent.next_signal()


async def test_history_is_read_from_the_durable_outbox(world: World, agent: AgentHand) -> None:
    for number in range(5):
        await agent.reply(f"{number}", kind="notice")
    await world.delivered(5)
    control = NatsControlClient(world.bus)
    page = await control.history(HistoryRequest(dm="console", after=0, limit=2))
    assert [m.text for m in page.messages] == ["0", "1"]
    rest = await control.history(
        HistoryRequest(dm="console", after=page.messages[-1].outbox_id, limit=100)
    )
    assert [m.text for m in rest.messages] == ["2", "3", "4"]
    assert rest.last == rest.messages[-1].outbox_id


async def test_a_session_cannot_open_streams_without_end(world: World, agent: AgentHand) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(4):
            await stack.enter_async_context(agent.signals())
        with pytest.raises(RateLimited):
            await agent.next_signal()
    await world.say("hello", "1")

    async def freed() -> bool:
        try:
            return await offered(agent, 1) == ["hello"]
        except RateLimited:
            return False

    await until(freed)
