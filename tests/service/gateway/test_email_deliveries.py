"""Mails to users: decisions by reply, repetitions, limits, and files that are too large."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.attachments import Button
from choir_common.wire.messages import DmBinding, EditTarget
from choir_gateway.channels.email.channel import EmailChannel
from choir_gateway.channels.email.notes import NoteMailer
from choir_gateway.channels.labels import REPEATED
from tests.service.gateway.mail_room import BOB, MailRoom
from tests.support.mail import running_imap, running_smtp
from tests.support.mail_user import ANN, plain_text, shared_certificate

BUTTONS = (Button(label="Approve", data="yes-1"), Button(label="Reject", data="no-1"))
QUOTE = "\n\nOn Tue, 24 Nov 2026, Choir <main@choir.test> wrote:\n> 1  Approve\n> 2  Reject\n"


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[MailRoom]:
    async with (
        running_imap(shared_certificate(), open_login=True) as imap,
        running_smtp(None, "none", size_limit=1_000_000) as postman,
    ):
        yield MailRoom(imap, postman, tmp_path)


async def ask(room: MailRoom, channel: EmailChannel) -> str:
    """Send a question; return its Message-ID."""
    await channel.deliver(room.say("May I?", kind="notice", buttons=BUTTONS), ANN)
    return str(room.ann.inbox()[-1]["Message-ID"])


async def test_a_reply_with_a_number_decides_and_the_decision_is_confirmed_once(
    room: MailRoom,
) -> None:
    async with room.running() as channel:
        question = await ask(room, channel)
        assert "2  Reject" in plain_text(room.ann.inbox()[0])
        room.control.nonces["yes-1"] = "Approved."
        room.ann.write(f"yes{QUOTE}", answers=question)
        await _until_pressed(room, 1)
        press = room.control.pressed[0]
        assert (press.data, press.user_id, press.chat_id) == ("yes-1", ANN, ANN)
        edits = EditTarget(outbox_id=1, message_id=press.message_id)
        await channel.deliver(room.say("Approved by ann.", kind="notice", edits=edits), ANN)
        # A later note shows that the note about the press was dropped.
        room.control.note = "Kept for later."
        room.ann.write("thanks")
        await room.until_mailed(room.ann, 3)
        assert [plain_text(it) for it in room.ann.inbox()[1:]] == [
            "Approved by ann.",
            "Kept for later.",
        ]
        assert room.ann.inbox()[1]["In-Reply-To"] == question
        assert room.texts() == ["thanks"]


async def test_a_replayed_or_late_decision_has_no_effect_and_says_so(room: MailRoom) -> None:
    async with room.running() as channel:
        question = await ask(room, channel)
        room.control.nonces["no-1"] = "Rejected."
        room.ann.write(f"2{QUOTE}", answers=question)
        await room.until_mailed(room.ann, 2)
        room.ann.write_again()
        room.ann.write("1", answers=question)
        await room.until_mailed(room.ann, 3)
        assert [it.data for it in room.control.pressed] == ["no-1", "yes-1"]
        assert "no longer open" in plain_text(room.ann.inbox()[2])
        room.control.outbox.clear()
        room.ann.write("1", answers=question)
        await room.until_mailed(room.ann, 4)
        assert "has ended" in plain_text(room.ann.inbox()[3])
        assert len(room.control.pressed) == 2 and room.texts() == []


async def test_only_the_user_who_was_asked_decides(room: MailRoom) -> None:
    async with room.running() as channel:
        question = await ask(room, channel)
        room.bob.write("1", answers=question)
        await room.until_mailed(room.bob, 1)
        room.ann.write("1", answers=question, results=())
        room.ann.write("1", answers=question.replace("@choir.test", "@evil.test"))
        room.ann.write("1")
        await room.until_accepted(1)
        assert room.control.pressed == []
        assert room.texts() == ["1"]


async def test_a_decision_with_more_text_decides_nothing_and_the_agent_reads_it(
    room: MailRoom,
) -> None:
    async with room.running() as channel:
        question = await ask(room, channel)
        room.ann.write(f"1\nbut not today{QUOTE}", answers=question)
        (message,) = await room.until_accepted(1)
        assert message.text == "1\nbut not today" and room.control.pressed == []
        await room.until_mailed(room.ann, 2)
        assert "Nothing was decided" in plain_text(room.ann.inbox()[1])


async def test_a_message_is_sent_once_even_if_its_delivery_is_repeated(room: MailRoom) -> None:
    message = room.say("hello")
    async with room.running() as channel:
        first = await channel.deliver(message, ANN)
    async with room.running() as channel:
        again = await channel.deliver(message.model_copy(update={"maybe_repeated": True}), ANN)
    assert first == again and len(room.ann.inbox()) == 1


async def test_a_repetition_after_a_doubt_is_the_same_mail_with_a_label(room: MailRoom) -> None:
    message = room.say("hello")
    room.postman.faults = ["drop after"]
    async with room.running() as channel:
        with pytest.raises(OutcomeUnknown):
            await channel.deliver(message, ANN)
        await channel.deliver(message.model_copy(update={"maybe_repeated": True}), ANN)
    first, second = room.ann.inbox()
    assert first["Message-ID"] == second["Message-ID"] and first["Subject"] == second["Subject"]
    assert plain_text(second) == f"{REPEATED}\n\nhello"


async def test_the_mails_of_an_hour_are_limited_for_each_user(room: MailRoom) -> None:
    async with room.running(mails_per_hour=2) as channel:
        for number in range(2):
            await channel.deliver(room.say(str(number)), ANN)
        waiting = room.say("later")
        with pytest.raises(Unavailable) as caught:
            await channel.deliver(waiting, ANN)
        assert 3_000 < (caught.value.retry_after_s or 0) <= 3_600
        await channel.deliver(room.say("for bob", dm="bob"), BOB)
    assert [plain_text(it) for it in room.ann.inbox()] == ["0", "1"]


async def test_notices_that_wait_become_one_mail(room: MailRoom) -> None:
    notices = [room.say(f"notice {number}", kind="notice") for number in range(3)]
    answer = room.say("the answer")
    late = room.say("late notice", kind="notice")
    room.postman.faults = ["drop after"]
    async with room.running() as channel:
        with pytest.raises(OutcomeUnknown):
            await channel.deliver(notices[0], ANN)
        room.say("newest notice", kind="notice")
    async with room.running() as channel:
        repeated = notices[0].model_copy(update={"maybe_repeated": True})
        receipts = [await channel.deliver(it, ANN) for it in (repeated, *notices[1:], answer, late)]
    mails = [plain_text(it) for it in room.ann.inbox()]
    combined = "notice 0\n\nnotice 1\n\nnotice 2"
    assert mails == [
        combined,
        f"{REPEATED}\n\n{combined}",
        "the answer",
        "late notice\n\nnewest notice",
    ]
    assert len({it.message_id for it in receipts[:3]}) == 1
    assert [it.status for it in receipts] == ["delivered"] * 5


class RecordingSender:
    """Records notes; may refuse the first mails."""

    def __init__(self, *refusals: Unavailable) -> None:
        self.refusals = [*refusals]
        self.mails = asyncio.Queue[list[str]]()

    async def send_notes(self, dm: DmBinding, texts: list[str]) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.mails.put_nowait(texts)


async def test_notes_that_wait_for_each_other_are_one_mail() -> None:
    sender = RecordingSender(Unavailable())
    notes = NoteMailer(sender, collect_s=0)
    dm = DmBinding(name="ann", gateway="mail", user_id=ANN, admin=True)
    for text in ("one", "two", "three"):
        notes.add(dm, text)
    running = asyncio.create_task(notes.run())
    async with asyncio.timeout(60):
        assert await sender.mails.get() == ["one", "two", "three"]
        notes.add(dm, "four")
        assert await sender.mails.get() == ["four"]
    running.cancel()
    await asyncio.wait([running])


async def test_files_that_are_too_large_are_named_and_the_text_arrives(room: MailRoom) -> None:
    files = {"large.bin": bytes(2_000_000), "gone.txt": b""}
    message = room.say("see the files", files={**files})
    del room.files.files[message.outbox_id, "1"]
    async with room.running() as channel:
        receipt = await channel.deliver(message, ANN)
    (mail,) = room.ann.inbox()
    text = plain_text(mail)
    assert receipt.status == "delivered" and text.startswith("see the files")
    assert "large.bin" in text and "gone.txt" in text and not list(mail.iter_attachments())


async def _until_pressed(room: MailRoom, count: int) -> None:
    async with asyncio.timeout(60):
        while len(room.control.pressed) < count:
            await asyncio.sleep(0.02)
