"""What only Signal has: messages that come once, timers, view-once files, numbers, groups, vague errors."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import Unavailable
from choir_common.wire.attachments import Button
from choir_common.wire.messages import ChannelTable, DmBinding, EditTarget
from choir_common.wire.model import JsonObject
from choir_gateway.channels.signal.state_store import SignalStateStore
from choir_testing.signal import run_fake_signal
from choir_testing.signal.accounts import OWN_ID, OWN_NUMBER, make_group_id
from choir_testing.signal.faults import FAILED, ErrorResponse
from tests.contract.channels.harness import until
from tests.contract.channels.signal_harness import (
    STRANGER_ID,
    USER_ID,
    USER_NUMBER,
    SignalHarness,
    id_of,
)

YES, NO = Button(label="Approve", data="yes-1"), Button(label="Reject", data="no-1")
GROUP = make_group_id("Family")[1]


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[SignalHarness]:
    async with SignalHarness.run(tmp_path) as harness:
        yield harness


def texts(room: SignalHarness) -> list[str]:
    return [it.text for it in room.control.accepted]


async def until_told(room: SignalHarness, words: str) -> None:
    await room.user.chat.wait_until(lambda chat: any(words in it.text for it in chat.from_agent()))


async def until_on_disk(path: Path, count: int) -> None:
    async def are_on_disk() -> bool:
        return len(list((path / "g").glob("*.json"))) == count

    await until(are_on_disk)


async def test_a_message_survives_a_crash_before_control_has_it(tmp_path: Path) -> None:
    async with run_fake_signal() as signal:
        first = SignalHarness(signal, tmp_path)
        table, first.control.table = (
            first.control.table,
            ChannelTable(config_version=1, gateways=(), dms=()),
        )
        handling = asyncio.Event()

        async def never(message: object) -> None:
            handling.set()
            await asyncio.Event().wait()

        first.control.accept = never  # type: ignore[method-assign, assignment]
        async with first.running():
            first.user.send("one")
            first.user.send("two")
            await handling.wait()

            await until_on_disk(tmp_path, 2)
        second = SignalHarness(signal, tmp_path)
        assert table == second.control.table
        async with second.running():
            await second.until_accepted(2)
            await until_on_disk(tmp_path, 0)
        assert texts(second) == ["one", "two"]


async def test_a_broken_connection_is_replaced_and_a_long_gap_is_told(tmp_path: Path) -> None:
    async with run_fake_signal() as signal:
        store = SignalStateStore(tmp_path / "g.json")
        await store.note_handled("1/" + "a" * 32, USER_NUMBER)
        await store.note_connection(datetime.now(UTC) - timedelta(hours=3))
        room = SignalHarness(signal, tmp_path)
        async with room.running():
            await until_told(room, "may not have arrived")
            await signal.disconnect()
            await signal.wait_connected()
            room.user.send("after it")
            await room.until_accepted(1)
        assert texts(room) == ["after it"]


async def test_the_mode_is_known_before_anything_is_received(tmp_path: Path) -> None:
    async with run_fake_signal() as signal:
        signal.accounts.mode, signal.secret = "native", "proxy"
        room = SignalHarness(signal, tmp_path)
        running = asyncio.create_task(room.channel.run())

        async def says(words: str) -> bool:
            state = room.channel.state()
            return state is not None and words in state.detail

        try:
            await until(lambda: says("refuses the secret"))
            signal.secret = None
            await until(lambda: says("MODE=json-rpc"))
            signal.accounts.mode = "json-rpc"
            await signal.wait_connected()
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_only_people_with_timers_are_told_that_nothing_is_read(room: SignalHarness) -> None:
    room.user.send("secret", content={"expiresInSeconds": 604800})
    room.user.send_other({"isExpirationUpdate": True, "expiresInSeconds": 60})
    await until_told(room, "Disappearing messages are on")
    room.user.send("again")
    await room.until_accepted(1)
    assert texts(room) == ["again"]
    assert len(room.user.chat.from_agent()) == 1


async def test_a_view_once_file_is_not_opened_and_deleted(room: SignalHarness) -> None:
    room.user.send_file("", b"jpeg", "image/jpeg", extra={"viewOnce": True})
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert message.attachments == () and "view-once" in message.text
    assert room.signal.accounts.attachments == {}


async def test_recordings_stickers_and_deletions_reach_the_agent(room: SignalHarness) -> None:
    room.user.send_file("", b"aac", "audio/aac")
    room.user.send_other({"sticker": {"packId": "00", "stickerId": 1}})
    deleted = room.user.send("oops")
    await room.until_accepted(3)
    room.user.delete(deleted)
    await room.until_accepted(4)
    voice, sticker, _, deletion = room.control.accepted
    assert [(it.kind, it.mime) for it in voice.attachments] == [("voice", "audio/aac")]
    assert "a sticker" in sticker.text
    assert (deletion.edits, "deleted" in deletion.text) == (id_of(deleted), True)


async def test_every_version_of_an_edited_message_is_the_same_message(room: SignalHarness) -> None:
    message = room.user.send("one")
    await room.until_accepted(1)
    for number, text in enumerate(("two", "three"), 2):
        room.user.edit(message, text)
        await room.until_accepted(number)
    assert [it.edits for it in room.control.accepted] == [None, *[id_of(message)] * 2]
    receipt = await room.deliver(room.message("first"))
    for text in ("second", "third"):
        edits = EditTarget(outbox_id=1, message_id=receipt.message_id)
        assert (await room.deliver(room.message(text, edits=edits))).status == "delivered"
    (shown,) = room.user.chat.from_agent()
    assert (shown.text, len(shown.revisions)) == ("third", 2)


async def test_a_number_chooses_only_as_a_reply_once_the_agent_has_gone_on(
    room: SignalHarness,
) -> None:
    await room.deliver(room.message("May I?", buttons=(YES, NO)))
    await room.deliver(room.message("Type 1 to see a picture of a cat."))
    question, _ = room.user.chat.from_agent()
    room.user.send("1")
    await room.until_accepted(1)
    assert room.control.pressed == []
    room.user.send("2.", reply_to=question)

    async def is_pressed() -> bool:
        return bool(room.control.pressed)

    await until(is_pressed)
    assert [it.data for it in room.control.pressed] == ["no-1"]


async def test_a_group_hears_what_is_addressed_and_answers_there(tmp_path: Path) -> None:
    async with run_fake_signal() as signal:
        room = SignalHarness(signal, tmp_path, emoji="👀")
        family = DmBinding(name="family", gateway="g", chat_id=GROUP, admin=False)
        room.control.table = ChannelTable(
            config_version=2, gateways=(room.gateway,), dms=(*room.control.table.dms, family)
        )
        room.conversations.replace(room.control.table.dms)
        bob = signal.user("Bob", None, account_id=STRANGER_ID, group="Family")
        mention: JsonObject = {"number": OWN_NUMBER, "uuid": OWN_ID, "start": 0, "length": 1}
        async with room.running():
            bob.send("lunch?")
            asked = bob.send("￼, what is 2 * 3?", content={"mentions": [mention]})
            await room.until_accepted(1)
            (question,) = room.control.accepted
            assert (question.dm, question.text) == ("family", "what is 2 * 3?")
            assert question.author is not None
            assert (question.author.name, question.author.user_id) == (
                "Bob",
                STRANGER_ID.replace("-", ""),
            )
            answer = room.message("6", reply_to=question.message_id)
            await room.channel.deliver(answer, GROUP)
            (shown,) = bob.chat.from_agent()
            assert shown.quote is not None
            assert shown.quote[:2] == (asked.timestamp, STRANGER_ID)
            await bob.chat.wait_until(lambda chat: chat.reactions == {asked.timestamp: "👀"})
            bob.send("and 3 * 3?", reply_to=shown)
            await room.until_accepted(2)
        assert texts(room) == ["what is 2 * 3?", "and 3 * 3?"]
        assert room.control.strangers == []


async def test_messages_of_the_account_itself_and_of_strangers_are_not_stored(
    tmp_path: Path,
) -> None:
    async with run_fake_signal() as signal:
        room = SignalHarness(signal, tmp_path, pairing=True)
        me = signal.user("Choir", OWN_NUMBER, account_id=OWN_ID)
        async with room.running():
            me.send("note to self")
            room.stranger.type()
            room.stranger.send("let me in")
            await room.stranger.chat.wait_until(lambda chat: bool(chat.from_agent()))
            room.user.send("hello")
            await room.until_accepted(1)
        (request,) = room.control.strangers
        assert (request.user_id, request.user_name) == (STRANGER_ID.replace("-", ""), "Mallory")
        assert texts(room) == ["hello"]
        assert "let me in" not in "".join(it.read_text() for it in tmp_path.rglob("*.json"))


async def test_a_captcha_is_explained_and_a_failure_without_reason_is_tried_again(
    room: SignalHarness,
) -> None:
    message = room.message("hello")
    room.signal.script(ErrorResponse(429, "rate limit", ("token-1",)), ErrorResponse(400, FAILED))
    with pytest.raises(Unavailable, match="CAPTCHA"):
        await room.deliver(message)
    state = room.channel.state()
    assert state is not None and "token-1" in state.detail
    with pytest.raises(Unavailable, match="does not say why"):
        await room.deliver(message)
    room.signal.accounts.lists_results = False
    assert (await room.deliver(message)).status == "delivered"


async def test_a_users_id_works_like_the_number_and_names_of_files_are_no_paths(
    tmp_path: Path,
) -> None:
    async with run_fake_signal() as signal:
        room = SignalHarness(signal, tmp_path)
        alice = DmBinding(name="alice", gateway="g", user_id=USER_ID, admin=True)
        room.conversations.replace((alice,))
        async with room.running():
            room.user.send("hi")
            await room.until_accepted(1)
            message = room.message("see", files={"../a;b,c.txt": b"x" * 200_000})
            await room.channel.deliver(message, USER_ID)
        (shown,) = room.user.chat.from_agent()
        assert shown.file is not None
        assert (shown.file.name, shown.file.content) == ("_a_b_c.txt", b"x" * 200_000)


def test_nothing_of_a_message_stays_in_the_state(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    asyncio.run(SignalStateStore(path).note_handled("1/" + "a" * 32, USER_NUMBER))
    assert set(json.loads(path.read_text())) == {
        *("handled", "revisions", "questions", "next_number", "wrote_at", "connected_at")
    }
