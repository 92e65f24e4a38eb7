"""Deliveries over Matrix: every part once or labelled, questions, files, threads, activities."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.activity import Card, Draft, Idle, Typing
from choir_common.wire.attachments import AttachmentKind, Button
from choir_common.wire.messages import DeliveryProgress, EditTarget
from choir_testing.matrix import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    NoFault,
    ShownEvent,
    TooManyRequests,
)
from choir_testing.matrix.server import CREATE, SEND, UPLOAD
from tests.service.gateway.matrix_room import (
    ALICE,
    TOKEN,
    MatrixRoom,
    opened_matrix_room,
    prepared_matrix_room,
)

YES, NO = Button(label="Approve", data="yes-1"), Button(label="Reject", data="no-1")
MORE = Button(label="Show all", data="page-1")
CONTENT = bytes(range(256)) * 40


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[MatrixRoom]:
    async with opened_matrix_room(tmp_path) as opened:
        yield opened


async def ask(room: MatrixRoom, *buttons: Button) -> ShownEvent:
    """Ask alice and return what she sees."""
    await room.deliver(room.message("May I?", buttons=buttons or (YES, NO)))
    return await room.alice.receive()


async def test_markdown_is_sent_as_html_and_as_plain_text(room: MatrixRoom) -> None:
    await room.deliver(
        room.message("**now** <b>not</b> [here](https://example.org/a?b=1&c=2)\nnext")
    )
    shown = await room.alice.receive()
    assert shown.html == (
        "<strong>now</strong> &lt;b&gt;not&lt;/b&gt; "
        '<a href="https://example.org/a?b=1&amp;c=2">here</a><br>next'
    )
    assert shown.body == "now <b>not</b> here (https://example.org/a?b=1&c=2)\nnext"


async def test_nobody_is_mentioned_and_no_address_is_previewed(room: MatrixRoom) -> None:
    await room.deliver(room.message("@room @alice:example.org https://evil.example/?secret"))
    shown = await room.alice.receive()
    assert not shown.has_mentions and not shown.has_previews
    key = ("org.matrix.room.preview_urls", "")
    await room.alice.wait_until(lambda: key in room.alice.room.state)
    state = room.alice.room.state[key]
    assert state.content == {"disable": True}


async def test_a_long_answer_of_wide_characters_fits_into_events(room: MatrixRoom) -> None:
    text = "".join(f"**{chr(0x1F600 + number % 60)}** `&&&&`\n" for number in range(2_000))
    assert (await room.deliver(room.message(text))).status == "delivered"
    shown = room.alice.shown()
    assert sum(it.body.count("&&&&") for it in shown) == 2_000


@pytest.mark.parametrize("fault", [DisconnectBefore(), DisconnectAfter(), ErrorResponse(502)])
async def test_a_repeated_part_is_recognised_by_its_transaction(
    room: MatrixRoom, fault: DisconnectBefore | DisconnectAfter | ErrorResponse
) -> None:
    room.matrix.script(SEND, fault, token=TOKEN)
    message = room.message("exactly this")
    with pytest.raises(OutcomeUnknown):
        await room.deliver(message)
    repeated = message.model_copy(update={"maybe_repeated": True})
    receipt = await room.deliver(repeated)
    (shown,) = room.alice.shown()
    assert (shown.body, shown.event_id) == ("exactly this", receipt.message_id)


async def test_a_repetition_that_the_homeserver_may_not_recognise_is_labelled(
    room: MatrixRoom,
) -> None:
    message = room.message("good news")
    old = message.model_copy(update={"at": message.at - timedelta(hours=1), "maybe_repeated": True})
    await room.deliver(old)
    assert (await room.alice.receive()).body == "(possibly repeated) good news"


async def test_a_repetition_with_a_new_token_is_labelled(tmp_path: Path) -> None:
    async with opened_matrix_room(tmp_path) as room:
        message = room.message("good news")
        # Another login is another device, whose transactions are its own.
        room.bot.log_in("another_token")
        room.token = "another_token"
        async with room.running():
            await room.until_connected()
            await room.deliver(message.model_copy(update={"maybe_repeated": True}))
        assert (await room.alice.receive()).body == "(possibly repeated) good news"


async def test_a_restarted_gateway_resumes_after_the_parts_that_arrived(
    room: MatrixRoom,
) -> None:
    message = room.message("x " * 4_000)
    progress = DeliveryProgress(outbox_id=message.outbox_id, parcels=2, message_id="$a")
    await room.deliver(message.model_copy(update={"partly_sent": progress}))
    assert len(room.alice.shown()) == 1
    assert [it.parcels for it in room.control.progress] == []


async def test_a_rate_limit_is_waited_for_or_returned(room: MatrixRoom) -> None:
    room.matrix.script(SEND, TooManyRequests(50), TooManyRequests(100_000), token=TOKEN)
    with pytest.raises(Unavailable) as caught:
        await room.deliver(room.message("hello"))
    assert caught.value.retry_after_s == 100
    await room.deliver(room.message("again"))
    assert (await room.alice.receive()).body == "again"


async def test_the_first_message_to_a_user_opens_a_room(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room, room.running():
        await room.until_connected()
        await room.deliver(room.message("hello"))
        await room.deliver(room.message("are you there?"))
        assert room.bot.count_calls(CREATE) == 1
        assert [it.body for it in room.alice.shown()] == ["hello", "are you there?"]
        place = room.alice.room
        assert place.membership(ALICE.user_id) == "invite" and not place.is_encrypted
        room.alice.join()
        room.alice.send("yes")
        await room.until_accepted(1)


async def test_a_room_that_was_created_without_an_answer_is_used(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room, room.running():
        await room.until_connected()
        room.matrix.script(CREATE, DisconnectAfter(), token=TOKEN)
        with pytest.raises(Unavailable) as caught:
            await room.deliver(room.message("hello"))
        assert not isinstance(caught.value, OutcomeUnknown)
        message = room.message("hello")
        async with asyncio.timeout(60):
            while not room.alice.shown():
                with contextlib.suppress(Unavailable):
                    await room.deliver(message)
                await asyncio.sleep(0.02)
        assert len(room.alice.rooms()) == 1


async def test_a_user_who_left_is_not_invited_again(room: MatrixRoom) -> None:
    room.alice.send("bye")
    await room.until_accepted(1)
    room.alice.leave()
    await room.alice.until_read()
    receipt = await room.deliver(room.message("hello?"))
    assert (receipt.status, "no longer in a direct room" in receipt.detail) == (
        "undeliverable",
        True,
    )
    assert room.bot.count_calls(CREATE) == 0
    await room.alice.start_joined_room()
    room.alice.send("hello again")
    await room.until_accepted(2)
    assert (await room.deliver(room.message("hello"))).status == "delivered"


async def test_a_user_id_of_another_messenger_is_undeliverable(room: MatrixRoom) -> None:
    receipt = await room.channel.deliver(room.message("hello"), "7")
    assert (receipt.status, "Matrix user id" in receipt.detail) == ("undeliverable", True)


async def test_an_edit_replaces_the_text_and_one_of_a_deleted_message_is_sent_again(
    room: MatrixRoom,
) -> None:
    receipt = await room.deliver(room.message("working"))
    await room.deliver(
        room.message("**done**", edits=EditTarget(outbox_id=1, message_id=receipt.message_id))
    )
    (shown,) = room.alice.shown()
    assert (shown.body, shown.html) == ("done", "<strong>done</strong>")
    room.alice.redact(shown.event_id)
    again = await room.deliver(
        room.message("really", edits=EditTarget(outbox_id=1, message_id=receipt.message_id))
    )
    (shown,) = room.alice.shown()
    assert (shown.body, shown.event_id) == ("really", again.message_id)


async def test_an_answer_goes_to_the_thread_of_its_message(room: MatrixRoom) -> None:
    root = room.alice.send("a topic")
    room.alice.send("in the thread", thread=root.event_id)
    room.alice.send("elsewhere")
    await room.until_accepted(3)
    assert room.control.accepted[1].reply_to is None
    await room.deliver(room.message("an answer " * 600, answers="in_2"))
    shown = await room.alice.receive_many(2)
    assert [(it.thread, it.reply_to) for it in shown] == [(root.event_id, None)] * 2
    asked = room.control.accepted[1].message_id
    await room.deliver(room.message("a reply", reply_to=asked))
    reply = await room.alice.receive()
    assert (reply.thread, reply.reply_to) == (root.event_id, asked)
    await room.deliver(room.message("outside", answers="in_3"))
    assert (await room.alice.receive()).thread is None


@pytest.mark.parametrize(
    ("emoji", "data"), [("✅", "yes-1"), ("❌", "no-1"), ("✅\ufe0f", "yes-1")]
)
async def test_a_reaction_to_a_question_is_a_press(room: MatrixRoom, emoji: str, data: str) -> None:
    room.control.nonces[data] = "Decided."
    asked = await ask(room)
    assert asked.body == (
        "May I?\n\n1: Approve ✅\n2: Reject ❌\nReact with the emoji, or answer with the number."
    )
    reaction = room.alice.react(asked.event_id, emoji)
    await room.until_pressed(1)
    (press,) = room.control.pressed
    assert (press.data, press.user_id, press.chat_id) == (data, ALICE.user_id, ALICE.user_id)
    assert (press.message_id, press.callback_id) == (asked.event_id, reaction.event_id)
    answer = await room.alice.receive()
    assert (answer.msgtype, answer.body) == ("m.notice", "| Decided.")


async def test_only_the_user_who_was_asked_decides(room: MatrixRoom) -> None:
    asked = await ask(room)
    place = room.alice.room
    bobs = await room.bob.start_joined_room()
    room.bob.react(asked.event_id, "✅", room=bobs)
    room.alice.add_member(room.bob.user_id)
    room.bob.react(asked.event_id, "✅", room=place)
    room.bob.send("1", room=place, reply_to=asked.event_id)
    room.bob.send("mine", room=bobs)
    await room.until_accepted(1)
    assert room.control.pressed == []


async def test_other_reactions_decide_nothing(room: MatrixRoom) -> None:
    asked = await ask(room)
    told = await room.deliver(room.message("I am waiting."))
    room.alice.react(asked.event_id, "👀")
    room.alice.react(str(told.message_id), "✅")
    room.alice.react("$unknown", "✅")
    room.alice.send("end")
    await room.until_accepted(1)
    assert room.control.pressed == []


async def test_the_number_of_a_choice_is_a_press_while_the_question_is_the_latest(
    room: MatrixRoom,
) -> None:
    await ask(room)
    room.alice.send("2")
    await room.until_pressed(1)
    assert room.control.pressed[0].data == "no-1"
    assert room.control.accepted == []


async def test_after_another_message_a_number_needs_a_reply(room: MatrixRoom) -> None:
    asked = await ask(room)
    # An agent could ask for the number that approves.
    await room.deliver(room.message("How many eggs: 1 or 2?"))
    room.alice.send("1")
    await room.until_accepted(1)
    assert room.control.pressed == []
    room.alice.send("1", reply_to=asked.event_id)
    await room.until_pressed(1)
    assert room.control.pressed[0].data == "yes-1"


async def test_numbers_continue_so_that_a_late_answer_is_not_one_to_the_next_question(
    room: MatrixRoom,
) -> None:
    first = await ask(room)
    edits = EditTarget(outbox_id=1, message_id=first.event_id)
    await room.deliver(room.message("Expired.", edits=edits))
    second = await ask(room)
    assert "3: Approve" in second.body
    room.alice.send("1")
    await room.until_accepted(1)
    assert room.control.pressed == []
    room.alice.send("3.")
    await room.until_pressed(1)


async def test_a_question_is_edited_into_the_next_one_or_closed(room: MatrixRoom) -> None:
    asked = await ask(room, MORE, NO)
    assert "1: Show all\n2: Reject ❌" in asked.body
    edits = EditTarget(outbox_id=1, message_id=asked.event_id)
    await room.deliver(room.message("All of it", buttons=(YES, NO), edits=edits))
    room.alice.react(asked.event_id, "✅")
    await room.until_pressed(1)
    assert room.control.pressed[0].data == "yes-1"
    await room.deliver(room.message("Approved.", edits=edits))
    assert room.alice.shown()[0].body == "Approved."
    room.alice.react(asked.event_id, "❌")
    room.alice.send("end")
    await room.until_accepted(1)
    assert len(room.control.pressed) == 1


async def test_a_question_is_open_after_a_restart_and_keeps_its_numbers(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        question = room.message("May I?", buttons=(YES, NO))
        async with room.running():
            await room.alice.start_joined_room()
            room.matrix.script(SEND, DisconnectAfter(), token=TOKEN)
            with pytest.raises(OutcomeUnknown):
                await room.deliver(question)
        async with room.running():
            await room.until_connected()
            await room.deliver(question.model_copy(update={"maybe_repeated": True}))
            (shown,) = [it for it in room.alice.shown() if "May I?" in it.body]
            assert "1: Approve" in shown.body
        async with room.running():
            await room.until_connected()
            room.alice.send("1")
            await room.until_pressed(1)
            assert room.control.pressed[0].data == "yes-1"


async def test_an_agents_file_arrives_with_its_text(room: MatrixRoom) -> None:
    receipt = await room.deliver(room.message("the *file*", ("document", "übung 1.bin", CONTENT)))
    shown = await room.alice.receive()
    assert (shown.msgtype, shown.body, shown.html) == ("m.file", "the file", "the <em>file</em>")
    assert shown.file is not None
    assert (shown.file.name, shown.file.content) == ("übung 1.bin", CONTENT)
    assert receipt.message_id == shown.event_id


async def test_ten_files_follow_the_text_in_order(room: MatrixRoom) -> None:
    files: list[tuple[AttachmentKind, str, bytes]] = [
        ("photo", f"{it}.png", str(it).encode()) for it in range(10)
    ]
    receipt = await room.deliver(room.message("ten", *files))
    text, *shown = await room.alice.receive_many(11)
    assert [it.file.content for it in shown if it.file] == [content for _, _, content in files]
    assert {it.msgtype for it in shown} == {"m.image"}
    assert receipt.message_id == text.event_id


async def test_a_file_above_the_limit_is_told_and_the_rest_goes_on(room: MatrixRoom) -> None:
    large = b"x" * (1024 * 1024 + 1)
    await room.deliver(
        room.message("two", ("document", "large", large), ("document", "small", b"y"))
    )
    _, told, small = await room.alice.receive_many(3)
    assert (
        told.body == "| The file large could not be sent: the homeserver limits uploads to 1 MiB."
    )
    assert small.file is not None and small.file.content == b"y"
    assert room.bot.count_calls(UPLOAD) == 1


async def test_a_file_that_the_homeserver_refuses_is_told_with_the_text(room: MatrixRoom) -> None:
    room.matrix.homeserver.upload_bytes = None
    room.matrix.script(UPLOAD, ErrorResponse(413, "M_TOO_LARGE"), token=TOKEN)
    await room.deliver(room.message("look", ("document", "a.bin", CONTENT)))
    told, text = await room.alice.receive_many(2)
    assert "a.bin could not be sent: it is larger than the homeserver allows" in told.body
    assert text.body == "look"


async def test_a_file_whose_upload_always_breaks_is_given_up(room: MatrixRoom) -> None:
    room.matrix.script(UPLOAD, *[DisconnectBefore()] * 3, token=TOKEN)
    message = room.message("see", ("document", "a.bin", CONTENT))
    for _ in range(3):
        with pytest.raises(Unavailable) as caught:
            await room.deliver(message)
        # No event names it, so that nobody saw it.
        assert not isinstance(caught.value, OutcomeUnknown)
    assert (await room.deliver(message)).status == "delivered"
    told, text = await room.alice.receive_many(2)
    assert "a.bin could not be sent: the connection failed" in told.body
    assert text.body == "see"


async def test_an_upload_waits_for_a_rate_limit(room: MatrixRoom) -> None:
    room.matrix.script(UPLOAD, NoFault(), TooManyRequests(50), token=TOKEN)
    await room.deliver(room.message("", ("document", "a", b"a"), ("voice", "b.ogg", b"b")))
    first, second = await room.alice.receive_many(2)
    assert first.file is not None and second.file is not None
    assert (first.file.content, second.file.content) == (b"a", b"b")
    assert second.msgtype == "m.audio"


async def test_a_file_waits_while_control_is_away(room: MatrixRoom) -> None:
    message = room.message("one", ("document", "a", b"a"))
    room.files.files[message.outbox_id, "0"] = Unavailable()
    with pytest.raises(Unavailable):
        await room.deliver(message)
    room.files.files[message.outbox_id, "0"] = b"a"
    assert (await room.deliver(message)).status == "delivered"


async def test_choirs_own_text_is_a_quotation_that_no_agent_can_write(room: MatrixRoom) -> None:
    own = room.message("Approved.\nAll is done.").model_copy(
        update={"session_id": None, "agent_id": "choir"}
    )
    await room.deliver(own)
    shown = await room.alice.receive()
    assert shown.html == "<blockquote>Approved.<br>All is done.</blockquote>"
    assert shown.body == "| Approved.\n| All is done."
    await room.deliver(room.message("> Approved.\n\n<blockquote>Approved.</blockquote>"))
    html = (await room.alice.receive()).html
    assert html == "<em>Approved.</em><br><br>&lt;blockquote&gt;Approved.&lt;/blockquote&gt;"


async def test_typing_is_shown_until_the_agent_waits(room: MatrixRoom) -> None:
    typing = room.alice.room.typing
    room.show(Typing())
    await room.alice.wait_until(lambda: typing.get(room.bot.user_id, 0) > 0)
    room.show(Idle())
    await room.alice.wait_until(lambda: typing[room.bot.user_id] == 0)
    room.show(Draft(text="half an answer"))
    assert await room.alice.receives_nothing(0.3)


async def test_a_card_is_one_silent_message_that_is_edited(room: MatrixRoom) -> None:
    room.show(Card(card_id="c1", text="1 of 2"))
    shown = await room.alice.receive()
    assert (shown.msgtype, shown.body) == ("m.notice", "1 of 2")
    room.matrix.script(SEND, DisconnectBefore(), token=TOKEN)
    room.show(Card(card_id="c1", text="2 of 2", done=True))
    await room.alice.wait_until(lambda: [it.body for it in room.alice.shown()] == ["2 of 2"])
    async with asyncio.timeout(60):
        while ("alice", "c1") not in room.control.cards:
            await asyncio.sleep(0.02)
    assert room.control.cards["alice", "c1"] == shown.event_id


async def test_a_card_of_an_earlier_process_is_edited(room: MatrixRoom) -> None:
    receipt = await room.deliver(room.message("1 of 2"))
    room.show(Card(card_id="c1", text="2 of 2", done=True, message_id=receipt.message_id))
    await room.alice.wait_until(lambda: [it.body for it in room.alice.shown()] == ["2 of 2"])
