"""Talk over a Telegram bot beside plain words: edits, replies, buttons, typing, cards, menus, limits."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from choir_common.wire.activity import Card, Idle, Typing
from choir_common.wire.attachments import Button
from choir_common.wire.messages import EditTarget
from choir_testing.telegram import ErrorResponse, TooManyRequests
from choir_testing.telegram import InlineButton as Key
from tests.service.gateway.telegram_room import TOKEN, Room, opened_room

BUTTONS = (Button(label="Approve", data="a:n1:y"), Button(label="Reject", data="a:n1:n"))


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room() as opened:
        yield opened


async def until_answered(room: Room, count: int) -> None:
    async with asyncio.timeout(60):
        while len(room.telegram.bot(TOKEN).answers) < count:
            await asyncio.sleep(0.02)


async def test_an_edited_message_is_a_new_one_that_says_so(room: Room) -> None:
    await room.alice.send("at ten")
    await room.alice.edit(room.alice.last_sent(), "at eleven")
    await room.until_accepted(2)
    first, second = room.control.accepted
    assert (first.text, first.edits) == ("at ten", None)
    assert (second.text, second.edits) == ("at eleven", str(room.alice.last_sent().message_id))


async def test_a_reply_brings_the_words_it_replies_to(room: Room) -> None:
    await room.deliver(room.message("shall **I**?"))
    asked = await room.alice.receive()
    await room.alice.reply(asked, "do")
    await room.until_accepted(1)
    quoted = room.control.accepted[0].reply_to
    assert quoted is not None
    assert (quoted.message_id, quoted.text) == (str(asked.message_id), "shall I?")


async def test_an_answer_to_an_older_message_hangs_below_it_with_its_first_part(
    room: Room,
) -> None:
    await room.alice.send("first")
    await room.alice.send("second")
    await room.until_accepted(2)
    first = room.control.accepted[0].message_id
    await room.deliver(room.message("word " * 1_500, reply_to=first))
    one, two = await room.alice.receive_many(2)
    assert (str(one.reply_to), two.reply_to) == (first, None)
    await room.deliver(room.message("look", ("photo", "a.png", b"png"), reply_to=first))
    assert str((await room.alice.receive()).reply_to) == first
    # the user has deleted it meanwhile
    await room.deliver(room.message("still", reply_to="999"))
    gone = await room.alice.receive()
    assert (gone.text, gone.reply_to) == ("still", None)


async def test_a_press_is_controls_to_judge_and_is_answered_once(room: Room) -> None:
    room.control.nonces["a:n1:y"] = "Approved."
    receipt = await room.deliver(room.message("May I?", buttons=BUTTONS))
    asked = await room.alice.receive()
    assert [button.text for button in asked.buttons] == ["Approve", "Reject"]
    assert receipt.message_id == str(asked.message_id)
    await room.alice.press(asked, "Approve")
    await room.alice.press(asked, "Approve")
    await room.bob.forge_press(asked, Key("Approve", "a:n1:y"))
    await until_answered(room, 3)
    answers = [answer.text for answer in room.telegram.bot(TOKEN).answers]
    assert answers == ["Approved.", *(["This is no longer open."] * 2)]
    first = room.control.pressed[0]
    assert (first.user_id, first.chat_id, first.message_id) == ("7", "7", receipt.message_id)
    assert room.control.pressed[2].user_id == "8"


async def test_an_edit_takes_the_place_of_the_message_and_its_buttons_go(room: Room) -> None:
    asked = room.message("May I?", buttons=BUTTONS)
    receipt = await room.deliver(asked)
    place = EditTarget(outbox_id=asked.outbox_id, message_id=receipt.message_id)
    edit = room.message("Approved.", edits=place)
    assert (await room.deliver(edit)).message_id == receipt.message_id
    (shown,) = room.alice.chat.messages.values()
    assert (shown.text, shown.buttons) == ("Approved.", ())
    again = room.message("Approved.", edits=place)
    assert (await room.deliver(again)).status == "delivered"
    assert room.alice.chat.bot_texts() == ["Approved."]


async def test_telegram_fetches_no_address_that_an_agent_writes(room: Room) -> None:
    link = "http://attacker.example/?q=what+was+said"
    said = room.message(f"See [this]({link}) or {link}")
    receipt = await room.deliver(said)
    await room.deliver(room.message(link))
    edits = EditTarget(outbox_id=said.outbox_id, message_id=receipt.message_id)
    await room.deliver(room.message(f"Better: {link}", edits=edits))
    room.show(Card(card_id="job:1", text=f"job: {link}", done=False))
    room.show(Card(card_id="job:1", text=f"job: done, {link}", done=True))
    await room.alice.chat.wait_until(lambda chat: any("done," in text for text in chat.bot_texts()))
    shown = list(room.alice.chat.messages.values())
    assert len(shown) == 3 and not any(message.preview for message in shown)


async def test_an_edit_of_what_is_gone_is_said_anew(room: Room) -> None:
    edit = room.message("Approved.", edits=EditTarget(outbox_id=1, message_id="999"))
    assert (await room.deliver(edit)).status == "delivered"
    assert room.alice.chat.bot_texts() == ["Approved."]


async def test_typing_is_shown_again_while_it_lasts_and_ends_when_idle(room: Room) -> None:
    room.show(Typing(lasts_s=60))
    await room.alice.wait_until(lambda chat: len(chat.actions) >= 2)
    room.show(Idle())
    for _ in range(6):  # one more may be under way
        before = len(room.alice.chat.actions)
        await asyncio.sleep(5)
        if len(room.alice.chat.actions) == before:
            return
    raise AssertionError("typing is shown on and on")


async def test_a_card_is_one_message_whose_last_state_is_shown(room: Room) -> None:
    for step in range(1, 6):
        room.show(Card(card_id="job", text=f"step {step}"))
    await room.alice.wait_until(lambda chat: chat.bot_texts() == ["step 5"])
    room.show(Card(card_id="job", text="step 6"))
    room.show(Card(card_id="job", text="all done", done=True))
    await room.alice.wait_until(lambda chat: chat.bot_texts() == ["all done"])
    room.show(Card(card_id="job", text="all done", done=True))
    await asyncio.sleep(0.3)
    (shown,) = room.alice.chat.messages.values()
    assert shown.edits == 1
    assert room.control.cards["alice", "job"] == str(shown.message_id)


async def test_a_card_of_before_a_restart_keeps_its_message(room: Room) -> None:
    await room.deliver(room.message("step 1"))
    message = str((await room.alice.receive()).message_id)
    room.show(Card(card_id="job", text="step 2", message_id=message))
    await room.alice.wait_until(lambda chat: chat.bot_texts() == ["step 2"])


async def test_a_card_is_shown_in_the_end_through_limits_and_failures(room: Room) -> None:
    faults = (TooManyRequests(1), ErrorResponse(502, "Bad Gateway"))
    room.telegram.script("editMessageText", *faults, token=TOKEN)
    room.show(Card(card_id="job", text="begins"))
    await room.alice.wait_until(lambda chat: chat.bot_texts() == ["begins"])
    room.show(Card(card_id="job", text="ends", done=True))
    await room.alice.wait_until(lambda chat: chat.bot_texts() == ["ends"])


async def test_each_user_sees_the_commands_they_may_type(room: Room) -> None:
    commands = room.telegram.bot(TOKEN).commands
    async with asyncio.timeout(60):
        while len(commands) < 2:
            await asyncio.sleep(0.02)
    assert [c["command"] for c in commands["chat:7"]] == ["status", "update_all"]
    assert [c["command"] for c in commands["chat:8"]] == ["status"]
    await room.alice.send("/update_all now")
    await room.until_accepted(1)
    assert room.control.accepted[0].text == "/update-all now"


async def test_many_words_at_once_stay_below_telegrams_limits(room: Room) -> None:
    traffic = room.telegram.limit_rate(TOKEN)
    for number in range(18):
        await room.deliver(room.message(f"{number}"))
    assert room.alice.chat.bot_texts() == [str(number) for number in range(18)]
    assert traffic.refused == 0
