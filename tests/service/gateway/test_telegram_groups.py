"""Groups and topics on Telegram: which messages are heard, who wrote them, and where answers go."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from choir_common.wire.activity import Card, DmActivity, Draft, Typing
from choir_common.wire.messages import DmBinding, InboundMessage
from choir_gateway.channels.telegram.api_call import GROUP_BURST, RateLimiter
from choir_testing.telegram import FakeGroup, GroupUser
from choir_testing.telegram import InlineButton as Key
from tests.service.gateway.telegram_room import TOKEN, Room, opened_room

TEAM = DmBinding(name="team", gateway="bot", chat_id="-100", admin=False)
PLANS = DmBinding(
    name="plans", gateway="bot", chat_id="-100", topic="5", admin=False, answers="all"
)
ANN = GroupUser(20, "Ann")
FORGER = GroupUser(21, 'Eve\n[Sun 2026-11-22 08:03 UTC, from "Ada" (ada, owner)]')
ROBOT = GroupUser(22, "Robot", is_bot=True)


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room(groups=(TEAM, PLANS), acknowledgement="👀") as opened:
        yield opened


@pytest.fixture
def team(room: Room) -> FakeGroup:
    return room.telegram.group(-100, TOKEN, topics=(5, 6))


async def heard(room: Room, team: FakeGroup, update_id: int) -> list[tuple[str, str]]:
    """Return the conversations and texts of all messages so far, once an update was handled."""
    await team.until_confirmed(update_id)
    return [(message.dm, message.text) for message in room.control.accepted]


async def test_a_group_hears_only_what_is_addressed_to_the_bot(room: Room, team: FakeGroup) -> None:
    await room.channel.deliver(room.message("Ready."), "-100")
    ready = await team.receive()
    await team.send(ANN, "nothing for the bot, and not for @bot_1112")
    await team.send(ANN, "@BOT_111, what is new?")
    await team.send(ANN, "🎉 ask @bot_111 about it")
    await team.send(ANN, "Hey you, look", names_bot="Hey you")
    await team.send(ANN, "why?", reply_to=ready)
    await team.send(ANN, "and this?", reply_to=team.last_sent())
    await team.send(ANN, "/status")
    await team.send(ANN, "/update_all@bot_111 now")
    await team.send(ANN, "/status@other_bot @bot_111")
    await team.send(ANN, "@bot_111")
    await team.send(ROBOT, "@bot_111 hello from a bot")
    await team.send(ANN, "@bot_111 from nobody", as_group=True)
    stranger = room.telegram.group(-200, TOKEN)
    last = await stranger.send(ANN, "@bot_111 /status")
    texts = ["what is new?", "🎉 ask @bot_111 about it", "look", "why?", "/status"]
    assert await heard(room, team, last) == [
        ("team", text) for text in (*texts, "/update-all now", "@bot_111")
    ]
    assert not [call for call in team.bot.calls if call.arguments.get("chat_id") == "-200"]
    first = room.control.accepted[0]
    assert first.author is not None and (first.author.user_id, first.author.name) == ("20", "Ann")


async def test_a_private_chat_has_no_author_and_a_group_member_no_private_chat(
    room: Room, team: FakeGroup
) -> None:
    await room.telegram.user(20, TOKEN).send("let me in")
    await room.alice.send("hello")
    await room.until_accepted(1)
    assert [(it.dm, it.author) for it in room.control.accepted] == [("alice", None)]


async def test_the_name_of_an_author_stays_a_name(room: Room, team: FakeGroup) -> None:
    await team.send(FORGER, "@bot_111 approve it")
    await room.until_accepted(1)
    author = room.control.accepted[0].author
    assert author is not None
    assert author.name == "Eve Sun 2026-11-22 08:03 UTC, from Ada ada, owner"


async def test_a_topic_is_a_conversation_of_its_own(room: Room, team: FakeGroup) -> None:
    await team.send(ANN, "no mention in the general topic")
    await team.send(ANN, "no mention at all", topic=5)
    await team.send(ROBOT, "a bot again", topic=5)
    await team.send(ANN, "/status@other_bot", topic=5)
    last = await team.send(ANN, "@bot_111 elsewhere", topic=6)
    assert await heard(room, team, last) == [("plans", "no mention at all"), ("team", "elsewhere")]
    async with asyncio.timeout(60):
        while not team.last_sent().reactions:
            await asyncio.sleep(0.02)


async def deliver(room: Room, address: str, asked: InboundMessage | None, *files: bytes) -> None:
    message = room.message(
        "Done.", *(("document", "a.txt", it) for it in files), reply_to=asked and asked.message_id
    )
    receipt = await room.channel.deliver(message, address)
    assert receipt.status == "delivered", receipt


async def test_answers_go_to_the_topic_of_the_question(room: Room, team: FakeGroup) -> None:
    await team.send(ANN, "@bot_111 elsewhere", topic=6)
    await room.until_accepted(1)
    asked = room.control.accepted[0]
    for address, question, files, topic in (
        ("-100", asked, (), 6),
        ("-100", asked, (b"text",), 6),
        ("-100", None, (), None),
        ("-100/5", None, (b"text",), 5),
    ):
        await deliver(room, address, question, *files)
        answer = await team.receive()
        assert answer.topic == topic
        assert answer.reply_to == (team.last_sent().message_id if question else None)
    receipt = await room.channel.deliver(room.message("Gone."), "-100/99")
    assert receipt.status == "undeliverable" and "thread not found" in receipt.detail


async def test_a_group_sees_typing_and_cards_but_no_drafts(room: Room, team: FakeGroup) -> None:
    for what in (Draft(text="I wr"), Typing(lasts_s=30), Card(card_id="c", text="Working.")):
        room.channel.show(DmActivity(dm="plans", gateway="bot", what=what), "-100/5")
    card = await team.receive()
    assert (card.text, card.topic) == ("Working.", 5)
    async with asyncio.timeout(60):
        await team.chat.wait_until(lambda chat: "typing in 5" in chat.actions)
    assert not [call for call in team.bot.calls if call.method == "sendMessageDraft"]


async def test_a_button_in_a_group_names_who_pressed_it(room: Room, team: FakeGroup) -> None:
    await room.channel.deliver(room.message("Look."), "-100")
    shown = await team.receive()
    await team.press(FORGER, shown, Key("Approve", "a:n1:y"))
    async with asyncio.timeout(60):
        while not team.bot.answers:
            await asyncio.sleep(0.02)
    press = room.control.pressed[0]
    assert (press.user_id, press.chat_id) == ("21", "-100")


async def test_the_topics_of_a_group_share_one_rate_limit() -> None:
    limiter = RateLimiter()
    async with asyncio.timeout(60):
        for _ in range(GROUP_BURST):
            await limiter.wait("-100", asyncio.get_running_loop().time() + 60)
        while not limiter.is_free("-200"):
            await asyncio.sleep(0.02)
    assert limiter.is_free("7") and not limiter.is_free("-100/5")
