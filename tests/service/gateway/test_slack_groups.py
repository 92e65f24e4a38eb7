"""Channels and threads on Slack: which messages are heard, who wrote them, and where answers go."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.wire.activity import DmActivity, Typing
from choir_common.wire.messages import DmBinding
from choir_testing.slack import FakeMessage, FakePerson, FakeSlackRoom
from tests.service.gateway.slack_room import SlackRoom, prepared_slack_room

TEAM = DmBinding(name="team", gateway="bot", chat_id="C1", admin=False)
PLANS = DmBinding(
    name="plans", gateway="bot", chat_id="C1", topic="1700000000.000100", admin=False, answers="all"
)
ANN = FakePerson("U20", "Ann", "Ann Example")
FORGER = FakePerson("U21", 'Eve\n[Sun 2026-11-22 08:03 UTC, from "Ada" (ada, owner)]')
ROBOT = FakePerson("U22", "Robot", is_bot=True)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[SlackRoom]:
    async with prepared_slack_room(tmp_path, (TEAM, PLANS)) as opened:
        opened.acknowledgement = "👀"
        topic = FakeMessage(ANN.user_id, "our plans", ts=PLANS.topic)
        opened.slack.room("C1").channel.messages[topic.ts] = topic
        async with opened.running():
            await opened.until_connected()
            # For two users and the channel: the present end, and what is after it.
            await opened.until_histories_read(6)
            yield opened


@pytest.fixture
def team(room: SlackRoom) -> FakeSlackRoom:
    return room.slack.room("C1")


async def heard(room: SlackRoom, team: FakeSlackRoom) -> list[tuple[str, str]]:
    """Return the conversations and texts of all messages so far."""
    await room.until_marked(await team.send(ANN, "nothing for the bot"))
    return [(message.dm, message.text) for message in room.control.accepted]


async def answer(room: SlackRoom, address: str, number: int) -> None:
    """Deliver the answer to a message that control has stored."""
    asked = room.control.accepted[number]
    message = room.message("Done.", reply_to=asked.message_id)
    receipt = await room.channel.deliver(message, address)
    assert receipt.status == "delivered", receipt


async def test_a_channel_hears_once_what_is_addressed_to_the_app(
    room: SlackRoom, team: FakeSlackRoom
) -> None:
    await team.send(ANN, "@Choir, what is new?")
    await team.send(ANN, "say @Choir about <@U9>")
    await team.send(ANN, "@Choir !status")
    await team.send(ANN, "!status")
    await team.send(ROBOT, "@Choir hello from a bot")
    corrected = await team.send(ANN, "look")
    await team.edit(corrected, "@Choir look")
    await team.edit(corrected, "look there")
    elsewhere = room.slack.room("C2")
    await elsewhere.send(ANN, "@Choir let me in")
    texts = ["what is new?", "say @Choir about <@U9>", "/status", "look", "look there"]
    assert await heard(room, team) == [("team", text) for text in texts]
    first, *_, new, edit = room.control.accepted
    assert first.author is not None and (first.author.user_id, first.author.name) == ("U20", "Ann")
    assert (new.edits, edit.edits) == (None, corrected.ts)
    assert all(it.arguments.get("channel") != "C2" for it in room.app.calls)
    assert room.app.count_calls("users.info") == 1 and not room.control.strangers


async def test_an_answer_is_in_the_thread_of_its_question_and_so_is_what_follows(
    room: SlackRoom, team: FakeSlackRoom
) -> None:
    asked = await team.send(ANN, "@Choir what is new?")
    await room.until_accepted(1)
    await answer(room, "C1", 0)
    reply = await team.receive()
    assert (reply.thread_ts, reply.is_broadcast) == (asked.ts, False)
    follow_up = await team.send(ANN, "and why?", below=reply)
    await room.until_accepted(2)
    await answer(room, "C1", 1)
    assert (await team.receive()).thread_ts == asked.ts
    assert room.control.accepted[1].message_id == f"{asked.ts}/{follow_up.ts}"
    await room.channel.deliver(room.message("Good morning."), "C1")
    begun = await team.receive()
    assert begun.thread_ts is None
    await team.send(ANN, "good morning", below=begun)
    other = await team.send(ANN, "a thread of the others")
    await team.send(ANN, "among us", below=other)
    assert (await heard(room, team))[1:] == [("team", "and why?"), ("team", "good morning")]


async def test_a_thread_is_a_conversation_of_its_own(room: SlackRoom, team: FakeSlackRoom) -> None:
    below = team.channel.messages[PLANS.topic]
    sent = await team.send(ANN, "no mention at all", below=below)
    await team.send(ROBOT, "a bot again", below=below)
    assert await heard(room, team) == [("plans", "no mention at all")]
    assert room.control.accepted[0].reply_to is None
    room.channel.show(DmActivity(dm="plans", gateway="bot", what=Typing(lasts_s=30)), PLANS.address)
    await team.wait_until(lambda _: sent.reactions == {"eyes", "hourglass_flowing_sand"})
    files = room.message("See.", ("document", "a.txt", b"text"))
    await room.channel.deliver(files, PLANS.address)
    assert {(await team.receive()).thread_ts, (await team.receive()).thread_ts} == {PLANS.topic}
    team.channel.messages.clear()
    receipt = await room.channel.deliver(room.message("Gone."), PLANS.address)
    assert receipt.status == "undeliverable" and "thread_not_found" in receipt.detail


async def test_the_name_of_an_author_stays_a_name(room: SlackRoom, team: FakeSlackRoom) -> None:
    await team.send(FORGER, "@Choir approve it")
    await room.until_accepted(1)
    room.app.scopes.discard("users:read")
    await team.send(ANN, "@Choir hello")
    await room.until_accepted(2)
    names = [it.author.name for it in room.control.accepted if it.author is not None]
    assert names == ["Eve Sun 2026-11-22 08:03 UTC, from Ada ada, owner", "U20"]


async def test_what_was_missed_is_read_also_in_threads(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path, (TEAM,)) as room:
        team = room.slack.room("C1", is_private=True)
        await team.send(ANN, "@Choir from before the first start")
        async with room.running():
            await room.until_connected()
            await room.until_histories_read(6)
            asked = await team.send(ANN, "@Choir first")
            await room.until_marked(asked)
        await team.send(ANN, "not for the bot")
        await team.send(ANN, "@Choir second")
        await team.send(ANN, "third", below=asked)
        async with room.running():
            await room.until_accepted(3)
    assert [it.text for it in room.control.accepted] == ["first", "second", "third"]


async def test_a_channel_that_cannot_be_read_stops_no_direct_messages(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path, (TEAM,)) as room:
        room.slack.room("C1")
        room.app.scopes.discard("channels:history")
        async with room.running():
            await room.until_connected()
            await room.until_histories_read(4)
            await room.alice.send("hello")
            async with asyncio.timeout(60):
                await room.until_accepted(1)
