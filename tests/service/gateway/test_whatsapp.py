"""What only WhatsApp has: the 24-hour window, statuses, lists, file types, and signed updates that repeat."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import InvalidRequest, NotFound, Unauthorized, Unavailable
from choir_common.wire.activity import Card, DmActivity, Typing
from choir_common.wire.attachments import Button
from choir_common.wire.messages import DeliveryReceipt, DmBinding, OutboundMessage
from choir_testing.whatsapp import run_fake_whatsapp
from choir_testing.whatsapp.accounts import FakeMessage
from choir_testing.whatsapp.faults import DisconnectAfter, ErrorResponse, LateFailure
from choir_testing.whatsapp.server import sign
from tests.contract.channels.harness import STRANGER, USER, until
from tests.contract.channels.whatsapp_harness import APP_SECRET, VERIFY, WhatsAppHarness

HOUR = 3600.0


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[WhatsAppHarness]:
    async with WhatsAppHarness.run(tmp_path) as harness:
        yield harness


@pytest.fixture
async def silent_room(tmp_path: Path) -> AsyncIterator[WhatsAppHarness]:
    """A number to which the user has not written yet."""
    async with run_fake_whatsapp() as whatsapp:
        harness = WhatsAppHarness(whatsapp, tmp_path, "👀")
        async with harness.running():
            yield harness


async def deliver_until_done(room: WhatsAppHarness, message: OutboundMessage) -> DeliveryReceipt:
    """Deliver as control's outbox does, without its pauses."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await room.deliver(message)
            except Unavailable:
                await asyncio.sleep(0.05)


def texts(room: WhatsAppHarness) -> list[str]:
    return [it.text for it in room.user.chat.from_business()]


def sent_calls(room: WhatsAppHarness) -> list[object]:
    return [call for call in room.number.calls if "status" not in call]


async def test_a_message_waits_until_the_user_writes_and_the_user_learns_why(
    silent_room: WhatsAppHarness,
) -> None:
    room, message = silent_room, silent_room.message("Good morning.")
    with pytest.raises(Unavailable, match="24 hours"):
        await room.deliver(message)
    assert sent_calls(room) == []
    state = room.channel.state()
    assert state is not None and "1 user(s) wait" in state.detail
    await room.user.send("hello")
    assert (await deliver_until_done(room, message)).status == "delivered"
    await room.user.wait_until(lambda chat: len(chat.from_business()) == 2)
    assert "Good morning." in texts(room)
    assert any("have waited since" in text for text in texts(room))
    state = room.channel.state()
    assert state is not None and not state.detail


async def test_a_stranger_who_was_let_in_is_welcomed_and_others_leave_no_trace(
    room: WhatsAppHarness, tmp_path: Path
) -> None:
    eve = room.whatsapp.user(STRANGER, room.number)
    asked = await eve.send("let me in")
    eve.repeat(asked)
    await eve.send_other({"type": "reaction", "reaction": {"message_id": "wamid.x", "emoji": "x"}})
    await eve.wait_until(lambda chat: any("CODE1" in it.text for it in chat.from_business()))
    assert [it.user_id for it in room.control.strangers] == [STRANGER]
    assert room.control.accepted == []
    # the window is open, so the message that tells the user does not wait
    welcome = await room.channel.deliver(room.message("Welcome."), STRANGER)
    assert welcome.status == "delivered"
    await eve.send("again")
    await room.user.send("end")
    await room.until_accepted(1)
    assert (tmp_path / "g.jsonl").read_text().count(f'"{STRANGER}"') == 1


async def test_the_window_ends_a_day_after_the_users_last_message_and_outlives_a_restart(
    silent_room: WhatsAppHarness, tmp_path: Path
) -> None:
    room = silent_room
    await room.user.send("long ago", sent_at=time.time() - 25 * HOUR)
    await room.until_accepted(1)
    with pytest.raises(Unavailable, match="24 hours"):
        await room.deliver(room.message("too late"))
    await room.user.send("today", sent_at=time.time() - 23 * HOUR)
    await room.until_accepted(2)
    await room.user.wait_until(lambda chat: len(chat.read) == 2)
    again = WhatsAppHarness(room.whatsapp, tmp_path)
    async with again.running():
        assert (await again.deliver(again.message("in time"))).status == "delivered"


async def test_whatsapp_decides_whether_the_window_is_open(room: WhatsAppHarness) -> None:
    room.whatsapp.script("messages", LateFailure(131047), number=room.number)
    message = room.message("for later")
    with pytest.raises(Unavailable, match="24 hours"):
        await room.deliver(message)
    calls = len(sent_calls(room))
    with pytest.raises(Unavailable, match="24 hours"):
        await room.deliver(message)
    assert len(sent_calls(room)) == calls
    await room.user.send("I am back")
    assert (await deliver_until_done(room, message)).status == "delivered"


async def test_a_lost_response_is_recognised_by_its_status(room: WhatsAppHarness) -> None:
    room.whatsapp.script("messages", DisconnectAfter(), number=room.number)
    receipt = await room.deliver(room.message("once"))
    (shown,) = room.user.chat.from_business()
    assert (shown.text, shown.message_id) == ("once", receipt.message_id)


async def test_a_late_status_spares_the_repetition(room: WhatsAppHarness) -> None:
    room.whatsapp.script("messages", DisconnectAfter(), number=room.number)
    room.number.statuses_paused = True
    message = room.message("once")
    with pytest.raises(Unavailable):
        await room.deliver(message)
    (call,) = [it for it in room.number.calls if it.get("type") == "text"]
    (shown,) = room.user.chat.from_business()
    room.number.statuses_paused = False
    extra = {"biz_opaque_callback_data": call["biz_opaque_callback_data"]}
    room.number.push_status(room.user.chat, shown.message_id, "read", extra)
    await room.user.send("and then")
    await room.until_accepted(1)
    repeated = message.model_copy(update={"maybe_repeated": True})
    assert (await room.deliver(repeated)).message_id == shown.message_id
    assert texts(room) == ["once"]


async def test_a_failure_after_the_delivery_is_reported(room: WhatsAppHarness) -> None:
    failure = LateFailure(131053, "The file could not be processed.", after_sent=True)
    room.whatsapp.script("messages", failure, number=room.number)
    assert (await room.deliver(room.message("see this"))).status == "delivered"
    note = await room.user.receive()
    assert "could not deliver" in note.text and "131053" in note.text
    state = room.channel.state()
    assert state is not None and "131053" in state.detail


async def test_without_statuses_the_response_counts(room: WhatsAppHarness) -> None:
    room.number.statuses_paused = True
    assert (await room.deliver(room.message("no news"))).status == "delivered"


async def test_a_wrong_token_is_a_reason_to_wait_that_operators_see(room: WhatsAppHarness) -> None:
    room.number.token = "renewed"
    with pytest.raises(Unavailable, match="access token"):
        await room.deliver(room.message("hello"))
    state = room.channel.state()
    assert state is not None and "error 190" in state.detail


async def test_the_limit_for_one_user_names_its_pause(room: WhatsAppHarness) -> None:
    room.whatsapp.script("messages", ErrorResponse(429, 131056), number=room.number)
    with pytest.raises(Unavailable) as limited:
        await room.deliver(room.message("hello"))
    assert limited.value.retry_after_s == 6.0


async def test_an_answer_to_a_message_that_is_gone_is_sent_alone(room: WhatsAppHarness) -> None:
    gone = await room.user.send("delete this")
    await room.until_accepted(1)
    del room.user.chat.messages[gone.message_id]
    await room.deliver(room.message("answer", reply_to=gone.message_id))
    (shown,) = room.user.chat.from_business()
    assert (shown.text, shown.reply_to) == ("answer", None)


async def test_a_long_question_has_its_buttons_below_the_end(room: WhatsAppHarness) -> None:
    buttons = tuple(Button(label=f"Choice {number}", data=f"c{number}") for number in range(4))
    words = [f"word{number}" for number in range(300)]
    await room.deliver(room.message(" ".join(words), buttons=buttons))
    shown = room.user.chat.from_business()
    assert " ".join(it.text for it in shown).split() == words
    assert [bool(it.choices) for it in shown] == [False] * (len(shown) - 1) + [True]
    room.control.nonces["c3"] = "Noted."
    await room.user.press(shown[-1], "Choice 3")
    await room.user.wait_until(
        lambda chat: any(it.text == "> Noted." for it in chat.from_business())
    )
    (press,) = room.control.pressed
    assert (press.data, press.message_id) == ("c3", shown[-1].message_id)


async def test_files_are_sent_as_what_they_are_and_others_are_named(room: WhatsAppHarness) -> None:
    await room.deliver(room.message("", files={"photo.png": b"png"}, kind="photo"))
    await room.deliver(room.message("", files={"notes.md": b"# Notes"}))
    await room.deliver(room.message("", files={"say.ogg": b"ogg"}, kind="voice"))
    await room.deliver(room.message("", files={"tool.bin": b"\x00\xff"}))
    photo, notes, voice, refusal = room.user.chat.from_business()
    assert photo.file is not None and photo.file.mime == "image/png"
    assert notes.file is not None and notes.file.mime == "text/plain"
    assert voice.is_voice
    assert refusal.file is None and "tool.bin" in refusal.text and "PDF" in refusal.text


async def test_addresses_in_a_text_are_not_fetched(room: WhatsAppHarness) -> None:
    await room.deliver(room.message("See https://example.org/?q=secret"))
    (shown,) = room.user.chat.from_business()
    assert not shown.has_preview


async def test_a_forged_or_changed_update_is_refused(room: WhatsAppHarness) -> None:
    value = {"messages": [{"from": USER, "id": "wamid.x", "timestamp": "1", "type": "text"}]}
    body = json.dumps(room.number.make_update(value)).encode()
    wrong = [
        {},
        sign("other-secret", body),
        sign(APP_SECRET, body + b" "),
        {"X-Hub-Signature-256": "ü"},
    ]
    for headers in wrong:
        with pytest.raises(Unauthorized):
            await room.channel.take_update(body, {key.lower(): it for key, it in headers.items()})
    broken = b'{"object": "page"}'
    with pytest.raises(InvalidRequest):
        signature = sign(APP_SECRET, broken)["X-Hub-Signature-256"]
        await room.channel.take_update(broken, {"x-hub-signature-256": signature})
    assert room.control.accepted == []


async def test_a_recorded_update_has_no_effect_even_after_a_restart(
    room: WhatsAppHarness, tmp_path: Path
) -> None:
    sent = await room.user.send("/new")
    await room.until_accepted(1)
    await room.user.wait_until(lambda chat: sent.message_id in chat.read)
    again = WhatsAppHarness(room.whatsapp, tmp_path)
    async with again.running():
        again.user.repeat(sent)
        await again.user.send("old", sent_at=time.time() - 9 * 24 * HOUR)
        await again.user.send("news")
        await again.until_accepted(1)
        assert [it.text for it in again.control.accepted] == ["news"]


async def test_updates_that_concern_others_are_ignored(room: WhatsAppHarness) -> None:
    other = room.whatsapp.number("999", token="other", app_secret=APP_SECRET)
    other.webhook_url = room.number.webhook_url
    await room.whatsapp.user(USER, other).send("to another number of the app")
    await room.user.send_other({"type": "text", "text": {"body": "in a group"}, "group_id": "g1"})
    emoji = {"message_id": "wamid.x", "emoji": "👍"}
    await room.user.send_other({"type": "reaction", "reaction": emoji})
    await room.user.send("to me")
    await room.until_accepted(1)
    assert [it.text for it in room.control.accepted] == ["to me"]


async def test_every_kind_of_message_reaches_the_agent(room: WhatsAppHarness) -> None:
    user = room.user
    contact = {"name": {"formatted_name": "Bo Li"}, "phones": [{"phone": "+49 1"}]}
    place = {"latitude": 52.5, "longitude": 13.4, "name": "Café", "address": "Street 1"}
    await user.send_other({"type": "location", "location": place})
    await user.send_other({"type": "contacts", "contacts": [contact]})
    await user.send_other({"type": "sticker", "sticker": {"id": "1", "mime_type": "image/webp"}})
    await user.send_other({"type": "poll_of_the_future", "poll_of_the_future": {}})
    await user.edit(await user.send("teh"), "the")
    await user.send_file("audio", "", b"speech", "audio/ogg; codecs=opus", is_voice=True)
    await room.until_accepted(7)
    *texts_before, voice = room.control.accepted
    assert "Café" in texts_before[0].text and "latitude 52.5" in texts_before[0].text
    assert "Bo Li" in texts_before[1].text and "+49 1" in texts_before[1].text
    assert "sticker" in texts_before[2].text and "something" in texts_before[3].text
    assert texts_before[4].text == "teh" and "edited" in texts_before[5].text
    (file,) = voice.attachments
    assert (file.kind, file.name, file.mime) == ("voice", "voice.ogg", "audio/ogg")


async def test_a_user_may_be_configured_by_metas_id(room: WhatsAppHarness) -> None:
    meta_id = "DE.13491208655302741918"
    dm = DmBinding(name="alice", gateway="g", user_id=meta_id, admin=True)
    room.conversations.replace((dm,))
    user = room.whatsapp.user(meta_id, room.number)
    user.meta_id = meta_id
    await user.send("hello")
    await room.until_accepted(1)
    receipt = await room.channel.deliver(room.message("welcome"), meta_id)
    assert receipt.status == "delivered"
    assert [it.text for it in user.chat.from_business()] == ["welcome"]
    wrong = await room.channel.deliver(room.message("?"), "+49 170 1")
    assert wrong.status == "undeliverable" and "alice" in wrong.detail


async def test_messages_are_acknowledged_typing_is_shown_and_a_card_once_it_is_done(
    silent_room: WhatsAppHarness,
) -> None:
    room, user = silent_room, silent_room.user
    room.channel.show(DmActivity(dm="alice", gateway="g", what=Typing()), USER)
    sent = await user.send("work")
    await user.wait_until(lambda chat: chat.reactions.get(sent.message_id) == "👀")
    assert sent.message_id in user.chat.read
    room.channel.show(DmActivity(dm="alice", gateway="g", what=Typing()), USER)
    for text, is_done in (("step 1", False), ("all done", True), ("all done", True)):
        card = Card(card_id="c", text=text, done=is_done)
        room.channel.show(DmActivity(dm="alice", gateway="g", what=card), USER)
    shown = await user.receive()
    await until(lambda: _has_card(room, shown))
    assert texts(room) == ["all done"]


async def _has_card(room: WhatsAppHarness, shown: FakeMessage) -> bool:
    return room.control.cards.get(("alice", "c")) == shown.message_id


async def test_the_token_goes_to_no_other_host_and_an_old_file_is_gone(
    room: WhatsAppHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    await room.user.send_file("document", "a.pdf", b"pdf", "application/pdf")
    await room.until_accepted(1)
    (file,) = room.control.accepted[0].attachments
    monkeypatch.setattr(type(room.whatsapp), "origin", "http://localhost:1")
    with pytest.raises(Unavailable, match="unknown host"):
        async with room.channel.open_file(file.ref):
            pass
    monkeypatch.undo()
    room.number.media.clear()
    for ref in (file.ref, "../me"):
        with pytest.raises(NotFound):
            async with room.channel.open_file(ref):
                pass


async def test_only_the_verify_token_gets_the_challenge(room: WhatsAppHarness) -> None:
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": VERIFY}
    assert room.channel.answer_challenge(query) == "1158201444"  # type: ignore[attr-defined]
    for change, error in (
        ({"hub.verify_token": "guess"}, Unauthorized),
        ({"hub.challenge": "<script>"}, InvalidRequest),
        ({"hub.mode": "unsubscribe"}, InvalidRequest),
    ):
        with pytest.raises(error):
            room.channel.answer_challenge({**query, **change})  # type: ignore[attr-defined]
