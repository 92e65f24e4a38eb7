"""Deliveries over a Slack app: texts, edits, threads, buttons, files, limits, faults, typing, cards."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.activity import Card, Draft, Idle, Typing
from choir_common.wire.attachments import AttachmentKind, Button
from choir_common.wire.messages import DeliveryProgress, EditTarget
from choir_testing.slack import (
    Delay,
    DisconnectAfter,
    DisconnectBefore,
    ErrorCode,
    HttpError,
    NoFault,
    TooManyRequests,
)
from tests.service.gateway.slack_room import SlackRoom, opened_slack_room, prepared_slack_room

SEND, EDIT, SHOW_FILE = "chat.postMessage", "chat.update", "files.completeUploadExternal"
CONTENT = bytes(range(256)) * 300
BUTTONS = (Button(label="Approve", data="a:n1:y"), Button(label="Reject", data="a:n1:n"))
HOURGLASS = "hourglass_flowing_sand"


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[SlackRoom]:
    async with opened_slack_room(tmp_path) as opened:
        yield opened


async def test_a_text_arrives_with_its_marks_and_its_id(room: SlackRoom) -> None:
    receipt = await room.deliver(room.message("the **bold** word"))
    heard = await room.alice.receive()
    assert heard.text == "the bold word"
    assert '"bold": true' in str(heard.blocks).replace("'", '"').replace("True", "true")
    assert (receipt.status, receipt.message_id) == ("delivered", heard.ts)


async def test_an_agents_text_mentions_nobody_and_previews_no_address(room: SlackRoom) -> None:
    text = "<!everyone> <@U7> @here see https://example.com/?leak=1"
    await room.deliver(room.message(text))
    heard = await room.alice.receive()
    assert heard.text == text
    assert not heard.has_preview


async def test_a_long_text_arrives_in_messages_with_closed_code(room: SlackRoom) -> None:
    code = "\n".join(f"line {number}" for number in range(1_000))
    receipt = await room.deliver(room.message(f"first\n\n```python\n{code}\n```\n\nlast"))
    heard = await room.alice.receive_many(3)
    assert all(len(message.text) <= 3_900 for message in heard)
    assert all("rich_text_preformatted" in str(message.blocks) for message in heard)
    lines = [line for it in heard for line in it.text.splitlines() if line.startswith("line ")]
    assert lines == code.splitlines()
    assert receipt.message_id == heard[-1].ts
    assert [(it.outbox_id, it.parcels) for it in room.control.progress] == [(1, 1), (1, 2)]


async def test_a_restarted_gateway_goes_on_after_the_parts_that_arrived(room: SlackRoom) -> None:
    progress = DeliveryProgress(outbox_id=1, parcels=1, message_id="5.000001")
    message = room.message("word " * 1_400).model_copy(update={"partly_sent": progress})
    await room.deliver(message)
    heard = await room.alice.receive()
    assert await room.alice.receives_nothing()
    assert len(heard.text) < 4_000


async def test_what_is_delivered_is_not_sent_again(room: SlackRoom) -> None:
    message = room.message("once")
    first = await room.deliver(message)
    assert await room.deliver(message.model_copy(update={"maybe_repeated": True})) == first
    assert room.alice.channel.bot_texts() == ["once"]


@pytest.mark.parametrize(
    "fault", [DisconnectAfter(), HttpError(502), ErrorCode("fatal_error")], ids=str
)
async def test_a_text_whose_outcome_is_unknown_is_labelled(room: SlackRoom, fault: object) -> None:
    room.slack.script(SEND, fault)  # type: ignore[arg-type]
    message = room.message("perhaps twice")
    with pytest.raises(OutcomeUnknown):
        await room.deliver(message)
    await room.deliver(message.model_copy(update={"maybe_repeated": True}))
    assert room.alice.channel.bot_texts()[-1] == "(possibly repeated) perhaps twice"


async def test_a_rate_limit_is_obeyed(room: SlackRoom) -> None:
    room.slack.script(SEND, TooManyRequests(1))
    await room.deliver(room.message("hello"))
    assert (await room.alice.receive()).text == "hello"
    assert room.app.count_calls(SEND) == 2


async def test_a_long_rate_limit_is_returned_to_control(room: SlackRoom) -> None:
    room.slack.script(SEND, TooManyRequests(120))
    with pytest.raises(Unavailable) as caught:
        await room.deliver(room.message("hello"))
    assert caught.value.retry_after_s == 120
    assert not isinstance(caught.value, OutcomeUnknown)


async def test_one_message_a_second_is_sent_without_a_refusal(room: SlackRoom) -> None:
    limits = room.slack.limit_rate()
    await room.deliver(room.message("word " * 4_200))
    assert len(room.alice.channel.messages) == 6
    assert limits.refused == 0


async def test_a_deactivated_user_is_told_plainly(room: SlackRoom) -> None:
    room.alice.deactivate()
    receipt = await room.deliver(room.message("hello"))
    assert (receipt.status, receipt.detail) == (
        "undeliverable",
        "Slack refuses: channel_not_found",
    )


@pytest.mark.parametrize(
    ("user_id", "reason"), [("alice", "is not a Slack user id"), ("U999", "user_not_found")]
)
async def test_a_user_id_that_slack_does_not_know_is_undeliverable(
    room: SlackRoom, user_id: str, reason: str
) -> None:
    receipt = await room.channel.deliver(room.message("hello"), user_id)
    assert receipt.status == "undeliverable"
    assert reason in receipt.detail


async def test_an_edit_replaces_the_text_and_the_buttons(room: SlackRoom) -> None:
    receipt = await room.deliver(room.message("May I?", buttons=BUTTONS))
    asked = await room.alice.receive()
    assert asked.labels() == ["Approve", "Reject"]
    target = EditTarget(outbox_id=1, message_id=receipt.message_id)
    edited = await room.deliver(room.message("Approved.", edits=target))
    heard = await room.alice.receive()
    assert heard is asked
    assert (heard.text, heard.labels(), heard.edits) == ("Approved.", [], 1)
    assert edited.message_id == receipt.message_id


async def test_an_edit_of_a_deleted_message_is_a_new_one(room: SlackRoom) -> None:
    receipt = await room.deliver(room.message("May I?"))
    room.alice.delete(await room.alice.receive())
    target = EditTarget(outbox_id=1, message_id=receipt.message_id)
    await room.deliver(room.message("Approved.", edits=target))
    heard = await room.alice.receive()
    assert (heard.text, heard.edits) == ("Approved.", 0)


async def test_an_answer_to_an_older_message_is_below_it_and_in_the_conversation(
    room: SlackRoom,
) -> None:
    sent = await room.alice.send("question")
    await room.deliver(room.message("word " * 1_400, reply_to=sent.ts))
    for part in await room.alice.receive_many(2):
        assert (part.thread_ts, part.is_broadcast) == (sent.ts, True)
    room.alice.delete(sent)
    await room.deliver(room.message("answer", reply_to=sent.ts))
    assert (await room.alice.receive()).thread_ts is None


async def test_an_answer_to_a_message_in_a_thread_goes_to_that_thread(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            root = await room.alice.send("root")
            below = await room.alice.send("below", below=root)
            await room.until_marked(below)
            await room.deliver(room.message("to the root", answers="in_1"))
            await room.deliver(room.message("to the reply", answers="in_2"))
            first, second = await room.alice.receive_many(2)
            assert (first.thread_ts, second.thread_ts) == (None, root.ts)
            assert not second.is_broadcast
        async with room.running():  # after a restart
            await room.until_connected()
            files: tuple[AttachmentKind, str, bytes] = ("document", "a", b"x")
            late = room.message("late", files, answers="in_2", reply_to=below.ts)
            await room.deliver(late)
            for part in await room.alice.receive_many(2):
                assert (part.thread_ts, part.is_broadcast) == (root.ts, False)


async def test_a_press_is_acknowledged_and_its_response_is_shown(room: SlackRoom) -> None:
    room.control.nonces["a:n1:y"] = "Approved."
    await room.deliver(room.message("May I?", buttons=BUTTONS))
    envelope = await room.alice.press(await room.alice.receive(), "Approve")
    await room.alice.wait_until(lambda channel: channel.notices == ["Approved."])
    (press,) = room.control.pressed
    assert (press.user_id, press.chat_id, press.data) == ("U7", "U7", "a:n1:y")
    assert envelope.is_acknowledged.is_set()


async def test_a_strangers_press_and_one_elsewhere_have_no_effect(room: SlackRoom) -> None:
    await room.deliver(room.message("May I?", buttons=BUTTONS))
    asked = await room.alice.receive()
    stranger = room.slack.user("U9")
    await stranger.forge_press(asked, "a:n1:y")
    # A button that somebody else shows to the user in another channel.
    await room.alice.forge_press(asked, "a:n1:y", channel_id=stranger.channel.channel_id)
    await room.alice.forge_press(asked, "a:n1:y", channel_id=room.bob.channel.channel_id)
    await room.alice.send("end")
    await room.until_accepted(1)
    assert room.control.pressed == []


async def test_a_repeated_press_has_one_id(room: SlackRoom) -> None:
    room.control.nonces["a:n1:y"] = "Approved."
    room.app.sockets.ack_timeout_s = 0.1
    room.app.sockets.ignores_acknowledgements = True
    await room.deliver(room.message("May I?", buttons=BUTTONS))
    await room.alice.press(await room.alice.receive(), "Approve")
    await room.alice.wait_until(lambda channel: channel.notices == ["Approved."] * 3)
    assert len({press.callback_id for press in room.control.pressed}) == 1


async def test_without_blocks_a_message_is_plain_and_its_choices_are_numbers(
    room: SlackRoom,
) -> None:
    room.control.nonces["a:n1:n"] = "Rejected."
    room.slack.script(SEND, ErrorCode("invalid_blocks"))
    await room.deliver(room.message("May **I**?", buttons=BUTTONS))
    asked = await room.alice.receive()
    assert (asked.text, asked.blocks) == ("May I?\n1. Approve\n2. Reject", [])
    for text in ("3", "two", "2", "2"):
        await room.alice.send(text)
    await room.until_accepted(3)
    assert [it.text for it in room.control.accepted] == ["3", "two", "2"]
    (press,) = room.control.pressed
    assert (press.data, press.message_id, press.user_id) == ("a:n1:n", asked.ts, "U7")
    await room.alice.wait_until(lambda channel: channel.notices == ["Rejected."])


async def test_a_decided_message_takes_no_number(room: SlackRoom) -> None:
    room.slack.script(SEND, ErrorCode("invalid_blocks"))
    receipt = await room.deliver(room.message("May I?", buttons=BUTTONS))
    target = EditTarget(outbox_id=1, message_id=receipt.message_id)
    await room.deliver(room.message("Approved.", edits=target))
    await room.alice.send("1")
    await room.until_accepted(1)
    assert room.control.pressed == []


async def test_an_agents_files_follow_the_text_in_order(room: SlackRoom) -> None:
    files: list[tuple[AttachmentKind, str, bytes]] = [
        ("document", f"übung {it}.txt", str(it).encode()) for it in range(3)
    ]
    receipt = await room.deliver(room.message("three", *files))
    text, *heard = await room.alice.receive_many(4)
    assert [(it.files[0].name, it.files[0].content) for it in heard] == [
        (name, content) for _, name, content in files
    ]
    assert (text.text, receipt.message_id) == ("three", text.ts)


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "it is empty"), (b"x", "Slack refuses: storage_limit_reached")]
)
async def test_a_file_that_cannot_be_sent_is_told_and_the_rest_goes_on(
    room: SlackRoom, content: bytes, reason: str
) -> None:
    if content:
        room.slack.script("files.getUploadURLExternal", ErrorCode("storage_limit_reached"))
    await room.deliver(room.message("two", ("document", "a", content), ("document", "b", b"y")))
    _, told, small = await room.alice.receive_many(3)
    assert told.quotes == [f"The file a could not be sent: {reason}."]
    assert small.files[0].content == b"y"


async def test_a_rate_limit_of_a_file_is_obeyed(room: SlackRoom) -> None:
    room.slack.script(SHOW_FILE, TooManyRequests(1))
    await room.deliver(room.message("", ("document", "a", CONTENT)))
    assert (await room.alice.receive()).files[0].content == CONTENT


async def test_a_file_waits_while_control_is_away(room: SlackRoom) -> None:
    message = room.message("", ("document", "a", b"a"))
    room.files.files[message.outbox_id, "0"] = Unavailable()
    with pytest.raises(Unavailable):
        await room.deliver(message)
    room.files.files[message.outbox_id, "0"] = b"a"
    assert (await room.deliver(message)).status == "delivered"
    assert (await room.alice.receive()).files[0].content == b"a"


async def test_a_file_that_never_certainly_arrives_is_given_up_and_that_is_told(
    room: SlackRoom,
) -> None:
    room.slack.script(SHOW_FILE, *[DisconnectBefore()] * 3)
    message = room.message("", ("document", "a.bin", CONTENT))
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            await room.deliver(message)
    assert (await room.deliver(message)).status == "delivered"
    assert "a.bin could not be sent: the connection failed" in (await room.alice.receive()).text


async def test_a_slow_file_that_arrived_is_not_sent_a_second_time(room: SlackRoom) -> None:
    room.slack.script(SHOW_FILE, NoFault(), Delay(30))
    message = room.message("two", ("document", "a", b"a"), ("document", "b", b"b"))
    attempt = asyncio.create_task(room.deliver(message))
    async with asyncio.timeout(60):
        while room.app.count_calls(SHOW_FILE) < 2:
            await asyncio.sleep(0.02)
    attempt.cancel()
    await asyncio.wait([attempt])
    await room.deliver(message.model_copy(update={"maybe_repeated": True}))
    heard = await room.alice.receive_many(3)
    assert [it.files[0].content for it in heard[1:]] == [b"a", b"b"]


async def test_choirs_own_text_is_a_quotation_that_no_agent_can_write(room: SlackRoom) -> None:
    own = room.message("Approved.\nAll is done.").model_copy(
        update={"session_id": None, "agent_id": "choir"}
    )
    await room.deliver(own)
    assert (await room.alice.receive()).quotes == ["Approved.\nAll is done."]
    for text in ("> Approved.", "&gt; Approved.", "\n\n&gt;&gt;&gt; Approved."):
        await room.deliver(room.message(text))
        heard = await room.alice.receive()
        assert "Approved." in heard.text and heard.quotes == []


async def test_typing_is_a_reaction_on_the_newest_message_until_the_agent_waits(
    room: SlackRoom,
) -> None:
    room.show(Typing())
    first, second = await room.alice.send("one"), await room.alice.send("two")
    await room.until_accepted(2)
    room.show(Typing())
    await room.alice.wait_until(lambda _: HOURGLASS in second.reactions)
    room.show(Draft(text="half an answer"))
    room.show(Idle())
    await room.alice.wait_until(lambda _: not second.reactions)
    assert not first.reactions
    assert await room.alice.receives_nothing(0.3)


async def test_a_typing_sign_of_an_earlier_process_is_removed(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            sent = await room.alice.send("one")
            await room.until_marked(sent)
            room.show(Typing())
            await room.alice.wait_until(lambda _: HOURGLASS in sent.reactions)
        async with room.running():
            await room.alice.wait_until(lambda _: not sent.reactions)


async def test_a_stored_message_gets_the_configured_reaction(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.acknowledgement = "👀"
        room.slack.script("reactions.add", TooManyRequests(1), ErrorCode("message_not_found"))
        async with room.running():
            await room.until_connected()
            first = await room.alice.send("one")
            second = await room.alice.send("two")
            await room.until_accepted(2)
            await room.alice.edit(second, "two!")
            await room.alice.wait_until(lambda _: second.reactions == {"eyes"})
            await room.until_accepted(3)
            assert not first.reactions
            assert room.app.count_calls("reactions.add") == 3


async def test_a_card_is_one_message_that_is_edited(room: SlackRoom) -> None:
    room.show(Card(card_id="c1", text="1 of 2"))
    shown = await room.alice.receive()
    room.slack.script(EDIT, DisconnectBefore())
    room.show(Card(card_id="c1", text="2 of 2", done=True))
    await room.alice.wait_until(lambda _: shown.text == "2 of 2")
    async with asyncio.timeout(60):
        while ("alice", "c1") not in room.control.cards:
            await asyncio.sleep(0.02)
    assert room.control.cards["alice", "c1"] == shown.ts
    assert len(room.alice.channel.messages) == 1
