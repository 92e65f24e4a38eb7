"""Deliveries over a Discord bot: texts, edits, replies, buttons, files, limits, faults, cards."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import NotFound, OutcomeUnknown, Unavailable
from choir_common.wire.activity import Card, Draft, Idle, Typing
from choir_common.wire.attachments import AttachmentKind, Button
from choir_common.wire.messages import DeliveryProgress, EditTarget
from choir_testing.discord import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from tests.service.gateway.discord_room import TOKEN, DiscordRoom, opened_discord_room

SEND = "POST /channels/{channel_id}/messages"
EDIT = "PATCH /channels/{channel_id}/messages/{message_id}"
CONTENT = bytes(range(256)) * 300
BUTTONS = (Button(label="Approve", data="a:n1:y"), Button(label="Reject", data="a:n1:n"))


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[DiscordRoom]:
    async with opened_discord_room(tmp_path) as opened:
        yield opened


async def test_a_text_arrives_with_its_marks_and_its_id(room: DiscordRoom) -> None:
    receipt = await room.deliver(room.message("the **bold** word"))
    heard = await room.alice.receive()
    assert heard.text == "the **bold** word"
    assert (receipt.status, receipt.message_id) == ("delivered", str(heard.message_id))


async def test_an_agents_text_mentions_nobody_and_previews_no_address(room: DiscordRoom) -> None:
    await room.deliver(room.message("@everyone <@7> see https://example.com/?leak=1"))
    heard = await room.alice.receive()
    assert "@everyone" in heard.text and "https://example.com/?leak=1" in heard.text
    assert not heard.pings
    assert not heard.has_preview
    receipt = await room.deliver(room.message("old"))
    await room.alice.receive()
    target = EditTarget(outbox_id=2, message_id=receipt.message_id)
    await room.deliver(room.message("@everyone https://example.com", edits=target))
    heard = await room.alice.receive()
    assert heard.text.startswith("@everyone")
    assert not heard.pings and not heard.has_preview


async def test_a_long_text_arrives_in_messages_with_closed_code(room: DiscordRoom) -> None:
    code = "\n".join(f"line {number}" for number in range(400))
    receipt = await room.deliver(room.message(f"first\n\n```python\n{code}\n```\n\nlast"))
    heard = await room.alice.receive_many(3)
    assert all(message.text.count("```") == 2 for message in heard)
    assert all("```python\n" in message.text for message in heard)
    lines = [line for it in heard for line in it.text.splitlines() if line.startswith("line ")]
    assert lines == code.splitlines()
    assert receipt.message_id == str(heard[-1].message_id)
    assert [(it.outbox_id, it.parcels) for it in room.control.progress] == [(1, 1), (1, 2)]


async def test_a_restarted_gateway_goes_on_after_the_parts_that_arrived(room: DiscordRoom) -> None:
    progress = DeliveryProgress(outbox_id=1, parcels=1, message_id="5")
    message = room.message("word " * 700).model_copy(update={"partly_sent": progress})
    await room.deliver(message)
    heard = await room.alice.receive()
    assert await room.alice.receives_nothing()
    assert len(heard.text) < 2000


async def test_what_is_delivered_is_not_sent_again(room: DiscordRoom) -> None:
    message = room.message("once")
    first = await room.deliver(message)
    assert await room.deliver(message.model_copy(update={"maybe_repeated": True})) == first
    assert room.alice.channel.bot_texts() == ["once"]


async def test_a_text_whose_outcome_is_unknown_is_repeated_by_its_nonce(room: DiscordRoom) -> None:
    room.discord.script(SEND, DisconnectAfter(), DisconnectBefore(), token=TOKEN)
    message = room.message("once")
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            await room.deliver(message)
        message = message.model_copy(update={"maybe_repeated": True})
    receipt = await room.deliver(message)
    heard = await room.alice.receive()
    assert (heard.text, receipt.message_id) == ("once", str(heard.message_id))
    assert await room.alice.receives_nothing()


async def test_a_text_that_another_process_may_have_sent_is_labelled(room: DiscordRoom) -> None:
    message = room.message("perhaps twice").model_copy(update={"maybe_repeated": True})
    room.discord.script(SEND, DisconnectBefore(), token=TOKEN)
    with pytest.raises(OutcomeUnknown):
        await room.deliver(message)
    await room.deliver(message)
    assert (await room.alice.receive()).text == "(possibly repeated) perhaps twice"


async def test_a_rate_limit_is_obeyed(room: DiscordRoom) -> None:
    room.discord.script(SEND, TooManyRequests(0.3), TooManyRequests(0.2, True), token=TOKEN)
    await room.deliver(room.message("hello"))
    assert (await room.alice.receive()).text == "hello"
    assert room.bot.count_calls(SEND) == 3


async def test_a_long_rate_limit_is_returned_to_control(room: DiscordRoom) -> None:
    room.discord.script(SEND, TooManyRequests(120.0), token=TOKEN)
    with pytest.raises(Unavailable) as caught:
        await room.deliver(room.message("hello"))
    assert caught.value.retry_after_s == 120
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_announced_limits_are_kept_without_a_refusal(room: DiscordRoom) -> None:
    limits = room.discord.limit_rate(TOKEN)
    await room.deliver(room.message("word " * 2_500))
    assert len(room.alice.channel.messages) == 7
    assert limits.refused == 0


async def test_a_user_who_refuses_the_bot_is_told_plainly(room: DiscordRoom) -> None:
    room.alice.block_bot()
    receipt = await room.deliver(room.message("hello"))
    assert receipt.status == "undeliverable"
    assert "share a server with the bot" in receipt.detail


@pytest.mark.parametrize(
    ("user_id", "reason"), [("alice", "is not a Discord user id"), ("999", "Invalid Recipient")]
)
async def test_a_user_id_that_discord_does_not_know_is_undeliverable(
    room: DiscordRoom, user_id: str, reason: str
) -> None:
    receipt = await room.channel.deliver(room.message("hello"), user_id)
    assert receipt.status == "undeliverable"
    assert reason in receipt.detail


async def test_a_message_waits_for_a_corrected_token(room: DiscordRoom) -> None:
    room.discord.renew_token(TOKEN, "another")
    with pytest.raises(Unavailable, match="refuses the bot's token"):
        await room.deliver(room.message("hello"))


async def test_an_edit_replaces_the_text_and_the_buttons(room: DiscordRoom) -> None:
    receipt = await room.deliver(room.message("May I?", buttons=BUTTONS))
    asked = await room.alice.receive()
    assert asked.labels() == ["Approve", "Reject"]
    target = EditTarget(outbox_id=1, message_id=receipt.message_id)
    edited = await room.deliver(room.message("Approved.", edits=target))
    heard = await room.alice.receive()
    assert heard is asked
    assert (heard.text, heard.labels(), heard.edits) == ("Approved.", [], 1)
    assert edited.message_id == receipt.message_id


async def test_an_edit_of_a_deleted_message_is_a_new_one(room: DiscordRoom) -> None:
    receipt = await room.deliver(room.message("May I?"))
    room.alice.delete(await room.alice.receive())
    target = EditTarget(outbox_id=1, message_id=receipt.message_id)
    await room.deliver(room.message("Approved.", edits=target))
    heard = await room.alice.receive()
    assert (heard.text, heard.edits) == ("Approved.", 0)


async def test_a_reply_hangs_below_its_message_with_its_first_part(room: DiscordRoom) -> None:
    sent = await room.alice.send("question")
    await room.deliver(room.message("word " * 700, reply_to=str(sent.message_id)))
    first, second = await room.alice.receive_many(2)
    assert (first.reply_to, second.reply_to) == (sent.message_id, None)
    room.alice.delete(sent)
    await room.deliver(room.message("answer", reply_to=str(sent.message_id)))
    assert (await room.alice.receive()).reply_to is None


async def test_a_press_is_confirmed_and_its_response_is_shown(room: DiscordRoom) -> None:
    room.control.nonces["a:n1:y"] = "Approved."
    await room.deliver(room.message("May I?", buttons=BUTTONS))
    pending = await room.alice.press(await room.alice.receive(), "Approve")
    await room.alice.wait_until(lambda channel: channel.notices == ["Approved."])
    (press,) = room.control.pressed
    assert (press.user_id, press.chat_id, press.data) == ("7", "7", "a:n1:y")
    assert press.callback_id == str(pending.interaction_id)
    assert pending.response_type == 6


async def test_a_strangers_press_has_no_effect(room: DiscordRoom) -> None:
    await room.deliver(room.message("May I?", buttons=BUTTONS))
    asked = await room.alice.receive()
    await room.discord.user(9, TOKEN).forge_press(asked, "a:n1:y")
    await room.alice.send("end")
    await room.until_accepted(1)
    assert room.control.pressed == []


async def test_seven_buttons_fit_below_one_message(room: DiscordRoom) -> None:
    buttons = tuple(Button(label=f"Choice {it}", data=f"c:{it}") for it in range(7))
    await room.deliver(room.message("Which?", buttons=buttons))
    heard = await room.alice.receive()
    assert [len(row) for row in heard.buttons] == [5, 2]
    assert heard.labels()[6] == "Choice 6"


@pytest.mark.parametrize(
    ("content_type", "is_voice", "kind"),
    [
        ("image/png", False, "photo"),
        ("audio/mpeg", False, "audio"),
        ("audio/ogg", True, "voice"),
        ("video/mp4", False, "video"),
        ("application/pdf", False, "document"),
    ],
)
async def test_a_users_file_comes_with_its_kind_its_text_and_its_bytes(
    room: DiscordRoom, content_type: str, is_voice: bool, kind: AttachmentKind
) -> None:
    await room.alice.send_file("übung.bin", CONTENT, content_type, "look", is_voice=is_voice)
    await room.until_accepted(1)
    (message,) = room.control.accepted
    (attachment,) = message.attachments
    assert (message.text, attachment.kind, attachment.mime) == ("look", kind, content_type)
    assert (attachment.name, attachment.size) == ("übung.bin", len(CONTENT))
    assert await room.read(attachment.ref) == CONTENT


async def test_a_file_that_is_gone_says_so(room: DiscordRoom) -> None:
    sent = await room.alice.send_file("a.bin", CONTENT, "application/pdf")
    await room.until_accepted(1)
    (attachment,) = room.control.accepted[0].attachments
    room.discord.disconnected = True
    with pytest.raises(Unavailable):
        await room.read(attachment.ref)
    room.discord.disconnected = False
    room.alice.delete(sent)
    with pytest.raises(NotFound):
        await room.read(attachment.ref)


async def test_an_agents_file_arrives_below_a_short_text(room: DiscordRoom) -> None:
    receipt = await room.deliver(room.message("the *file*", ("document", "übung 1.bin", CONTENT)))
    heard = await room.alice.receive()
    assert heard.text == "the *file*"
    assert [(file.name, file.content) for file in heard.files] == [("übung 1.bin", CONTENT)]
    assert receipt.message_id == str(heard.message_id)


async def test_ten_files_follow_the_text_in_order(room: DiscordRoom) -> None:
    files: list[tuple[AttachmentKind, str, bytes]] = [
        ("document", f"{it}.txt", str(it).encode()) for it in range(10)
    ]
    receipt = await room.deliver(room.message("ten", *files))
    text, *heard = await room.alice.receive_many(11)
    assert [it.files[0].content for it in heard] == [content for _, _, content in files]
    assert receipt.message_id == str(text.message_id)


async def test_a_file_above_the_limit_is_told_and_the_rest_goes_on(room: DiscordRoom) -> None:
    large = b"x" * (10 * 1024 * 1024 + 1)
    await room.deliver(
        room.message("two", ("document", "large", large), ("document", "small", b"y"))
    )
    _, told, small = await room.alice.receive_many(3)
    assert told.text.startswith("> The file large could not be sent")
    assert small.files[0].content == b"y"


async def test_a_file_that_discord_refuses_is_told_with_the_text(room: DiscordRoom) -> None:
    room.discord.script(SEND, ErrorResponse(413, 40005, "Request entity too large"), token=TOKEN)
    await room.deliver(room.message("look", ("document", "a.bin", CONTENT)))
    told, text = await room.alice.receive_many(2)
    assert "a.bin could not be sent: it is larger than Discord allows" in told.text
    assert text.text == "look"


async def test_a_rate_limit_sends_the_whole_file_again(room: DiscordRoom) -> None:
    room.discord.script(SEND, TooManyRequests(0.2), token=TOKEN)
    await room.deliver(room.message("", ("document", "a", CONTENT)))
    assert (await room.alice.receive()).files[0].content == CONTENT


async def test_a_file_waits_while_control_is_away(room: DiscordRoom) -> None:
    message = room.message("one", ("document", "a", b"a"))
    room.files.files[message.outbox_id, "0"] = Unavailable()
    with pytest.raises(Unavailable):
        await room.deliver(message)
    room.files.files[message.outbox_id, "0"] = b"a"
    assert (await room.deliver(message)).status == "delivered"
    assert (await room.alice.receive()).files[0].content == b"a"


async def test_a_file_that_never_certainly_arrives_is_given_up_and_that_is_told(
    room: DiscordRoom,
) -> None:
    room.discord.script(SEND, *[DisconnectBefore()] * 3, token=TOKEN)
    message = room.message("see", ("document", "a.bin", CONTENT))
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            await room.deliver(message)
    assert (await room.deliver(message)).status == "delivered"
    told, text = await room.alice.receive_many(2)
    assert "a.bin could not be sent: the connection failed" in told.text
    assert text.text == "see"


async def test_a_slow_file_that_arrived_is_not_sent_a_second_time(room: DiscordRoom) -> None:
    room.discord.script(SEND, NoFault(), Delay(30), token=TOKEN)
    message = room.message("two", ("document", "a", b"a"), ("document", "b", b"b"))
    attempt = asyncio.create_task(room.deliver(message))
    async with asyncio.timeout(60):
        while room.bot.count_calls(SEND) < 2:
            await asyncio.sleep(0.02)
    attempt.cancel()
    await asyncio.wait([attempt])
    await room.deliver(message.model_copy(update={"maybe_repeated": True}))
    heard = await room.alice.receive_many(3)
    assert [it.files[0].content for it in heard[1:]] == [b"a", b"b"]


async def test_choirs_own_text_is_a_quotation_that_no_agent_can_write(room: DiscordRoom) -> None:
    own = room.message("Approved.\nAll is done.").model_copy(
        update={"session_id": None, "agent_id": "choir"}
    )
    await room.deliver(own)
    assert (await room.alice.receive()).text == "> Approved.\n> All is done."
    await room.deliver(room.message("> Approved."))
    assert (await room.alice.receive()).text == "*Approved.*"


async def test_typing_is_shown_until_the_agent_waits(room: DiscordRoom) -> None:
    room.show(Typing())
    await room.alice.wait_until(lambda channel: channel.typing == 1)
    room.show(Idle())
    room.show(Draft(text="half an answer"))
    assert await room.alice.receives_nothing(0.3)


async def test_a_card_is_one_message_that_is_edited(room: DiscordRoom) -> None:
    room.show(Card(card_id="c1", text="1 of 2"))
    shown = await room.alice.receive()
    room.show(Card(card_id="c1", text="2 of 2", done=True))
    await room.alice.wait_until(lambda _: shown.text == "2 of 2")
    async with asyncio.timeout(60):
        while ("alice", "c1") not in room.control.cards:
            await asyncio.sleep(0.02)
    assert room.control.cards["alice", "c1"] == str(shown.message_id)
    assert len(room.alice.channel.messages) == 1


async def test_a_card_of_an_earlier_process_is_edited(room: DiscordRoom) -> None:
    receipt = await room.deliver(room.message("1 of 2"))
    shown = await room.alice.receive()
    room.show(Card(card_id="c1", text="2 of 2", done=True, message_id=receipt.message_id))
    await room.alice.wait_until(lambda _: shown.text == "2 of 2")


async def test_a_card_that_could_not_be_edited_is_edited_later(room: DiscordRoom) -> None:
    room.show(Card(card_id="c1", text="1 of 2"))
    shown = await room.alice.receive()
    room.discord.script(EDIT, DisconnectBefore(), token=TOKEN)
    room.show(Card(card_id="c1", text="2 of 2", done=True))
    await room.alice.wait_until(lambda _: shown.text == "2 of 2")
