"""Messages over Matrix: received once and in order, from configured users in direct rooms only."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.errors import NotFound, Unavailable
from choir_common.wire.messages import InboundAccepted, InboundMessage
from choir_common.wire.model import JsonObject
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.matrix import ErrorResponse, TooManyRequests
from choir_testing.matrix.server import DOWNLOAD, JOIN, SYNC
from tests.service.gateway.matrix_room import (
    ALICE,
    BOB,
    TOKEN,
    MatrixRoom,
    opened_matrix_room,
    prepared_matrix_room,
)

CONTENT = bytes(range(256)) * 40


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[MatrixRoom]:
    async with opened_matrix_room(tmp_path) as opened:
        yield opened


def texts(room: MatrixRoom) -> list[str]:
    return [message.text for message in room.control.accepted]


async def test_a_message_reaches_control_with_its_id_and_its_time(room: MatrixRoom) -> None:
    sent = room.alice.send("hello")
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert (message.gateway, message.dm, message.text) == ("bot", "alice", "hello")
    assert message.update_id == message.message_id == sent.event_id
    assert int(message.sent_at.timestamp() * 1000) == sent.sent_ms


async def test_a_strangers_invitation_is_left_alone(room: MatrixRoom) -> None:
    stranger = room.matrix.user("mallory", TOKEN)
    place = stranger.start_room()
    stranger.send("let me in", room=place)
    room.alice.send("hello")
    await room.until_accepted(1)
    assert texts(room) == ["hello"]
    assert place.membership(room.bot.user_id) == "invite"


async def test_a_stranger_is_answered_once_in_a_room_of_the_bot_which_it_leaves_again(
    tmp_path: Path,
) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.pairing = True
        stranger = room.matrix.user("mallory", TOKEN)
        early = room.matrix.user("eve", TOKEN).start_room()
        async with room.running():
            await room.until_connected()
            own = stranger.start_room(is_encrypted=True)
            shown = await stranger.receive()
            assert "CODE1" in shown.body and shown.msgtype == "m.notice"
            stranger.start_room()
            place = next(it for it in stranger.rooms() if stranger.shown(it))
            assert not place.is_encrypted and place not in (early, own)
            stranger.join(place)
            stranger.send("let me in", room=place)
            await room.alice.start_joined_room()
            room.alice.send("hello")
            await room.until_accepted(1)
            assert len(stranger.shown(place)) == 1 and texts(room) == ["hello"]
            invited = [it.membership(room.bot.user_id) for it in (early, own)]
            assert invited == ["invite", "invite"]
            cleaner = room.channel._cleaner
            await cleaner.leave_old_rooms(datetime.now(UTC) - timedelta(hours=1))
            assert place.membership(room.bot.user_id) == "join"
            await cleaner.leave_old_rooms(datetime.now(UTC))
            assert place.membership(room.bot.user_id) == "leave"
        assert [it.user_id for it in room.control.strangers] == [stranger.user_id]


async def test_an_invitation_is_accepted_once_its_sender_is_configured(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.conversations.replace([BOB])
        place = room.alice.start_room()
        async with room.running():
            await room.until_connected()
        # /sync does not repeat the invitation after a restart.
        async with room.running():
            await room.until_connected()
            assert place.membership(room.bot.user_id) == "invite"
            room.conversations.replace([ALICE, BOB])
            room.bob.start_room()
            await room.alice.wait_until(lambda: place.membership(room.bot.user_id) == "join")


async def test_an_invitation_is_tried_again_after_a_failure(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.matrix.script(JOIN, ErrorResponse(502), token=TOKEN)
        async with room.running():
            await room.alice.start_joined_room()
        assert room.bot.count_calls(JOIN) == 2


async def test_what_was_written_with_the_invitation_is_read(room: MatrixRoom) -> None:
    place = room.bob.start_room()
    room.bob.send("hello", room=place)
    await room.until_accepted(1)
    assert [(it.dm, it.text) for it in room.control.accepted] == [("bob", "hello")]


async def test_a_room_with_another_member_is_not_read(room: MatrixRoom) -> None:
    place = room.alice.room
    room.alice.add_member("@mallory:example.org")
    room.alice.send("now we are three")
    other = await room.alice.start_joined_room()
    room.alice.send("alone again", room=other)
    await room.until_accepted(1)
    assert texts(room) == ["alone again"]
    await room.deliver(room.message("a secret"))
    assert room.alice.shown(place) == []
    assert [it.body for it in room.alice.shown(other)] == ["a secret"]


async def test_messages_of_a_user_stay_in_order(room: MatrixRoom) -> None:
    for number in range(20):
        room.alice.send(str(number))
    await room.until_accepted(20)
    assert texts(room) == [str(number) for number in range(20)]


async def test_an_event_that_comes_twice_is_one_message(room: MatrixRoom) -> None:
    room.alice.repeat(room.alice.send("once"))
    room.alice.send("then")
    await room.until_accepted(2)
    assert texts(room) == ["once", "then"]


async def test_an_edit_corrects_its_message(room: MatrixRoom) -> None:
    sent = room.alice.send("at ten")
    edit = room.alice.edit(sent.event_id, "at eleven")
    await room.until_accepted(2)
    second = room.control.accepted[1]
    assert (second.text, second.edits, second.message_id) == (
        "at eleven",
        sent.event_id,
        sent.event_id,
    )
    assert second.update_id == edit.event_id


async def test_a_reply_brings_the_text_it_replies_to_without_the_fallback(
    room: MatrixRoom,
) -> None:
    receipt = await room.deliver(room.message("shall I?"))
    room.alice.send("> <@bot> shall I?\n> really\n\ndo", reply_to=receipt.message_id)
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert message.text == "do"
    assert message.reply_to is not None
    assert (message.reply_to.message_id, message.reply_to.text) == (
        receipt.message_id,
        "shall I?",
    )


async def test_a_quotation_of_the_user_that_is_no_fallback_stays(room: MatrixRoom) -> None:
    room.alice.send("> be bold\nis this good advice?")
    await room.until_accepted(1)
    assert texts(room) == ["> be bold\nis this good advice?"]


async def test_what_cannot_be_read_is_named_and_notices_are_not_answered(
    room: MatrixRoom,
) -> None:
    room.alice.send("I am a program", msgtype="m.notice")
    room.alice.send_event("m.sticker", {"body": "wave", "url": "mxc://example.org/x", "info": {}})
    room.alice.send_event("m.room.message", {"msgtype": "org.example.new", "body": "?"})
    room.alice.send_event("m.room.message", {"msgtype": 7, "body": ["?"]})
    room.alice.send("waves", msgtype="m.emote")
    room.alice.send_event(
        "m.room.message", {"msgtype": "m.location", "body": "Here", "geo_uri": "geo:1,2"}
    )
    await room.until_accepted(5)
    assert texts(room) == [
        "[The user sent a sticker, which cannot be read here.]",
        "[The user sent something, which cannot be read here.]",
        "[The user sent something, which cannot be read here.]",
        "* waves",
        "[The user sent a location: geo:1,2] Here",
    ]


async def test_a_command_may_begin_with_an_exclamation_mark(room: MatrixRoom) -> None:
    room.alice.send("!status now")
    room.alice.send("!nonsense")
    await room.until_accepted(2)
    assert texts(room) == ["/status now", "!nonsense"]


async def test_a_deleted_message_is_told_as_an_edit(room: MatrixRoom) -> None:
    sent = room.alice.send("my password is 1234")
    await room.until_accepted(1)
    reaction = room.alice.react(sent.event_id, "😀")
    room.alice.redact(reaction.event_id)
    room.alice.redact(sent.event_id)
    await room.until_accepted(2)
    deletion = room.control.accepted[1]
    assert (deletion.text, deletion.edits) == ("[The user deleted this message.]", sent.event_id)


class BusyControl(FakeControlClient):
    """Control that is unavailable for its first requests."""

    failures = 3

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        if self.failures:
            self.failures -= 1
            raise Unavailable
        return await super().accept(message)


async def test_a_message_waits_for_control(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.control = BusyControl(room.control.table)
        async with room.running():
            await room.alice.start_joined_room()
            room.alice.send("one")
            room.alice.send("two")
            await room.until_accepted(2)
            assert texts(room) == ["one", "two"]


async def test_messages_from_before_the_first_start_are_not_read(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        place = room.alice.start_room()
        room.matrix.homeserver.set_member(place, room.bot.user_id, room.bot.user_id, "join")
        room.alice.send("long ago")
        async with room.running():
            await room.until_connected()
            room.alice.send("now")
            await room.until_accepted(1)
            assert texts(room) == ["now"]


async def test_what_was_sent_while_the_gateway_was_stopped_comes_once_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with opened_matrix_room(tmp_path) as room:
        room.alice.send("before")
        await room.alice.until_read()
    # More than /sync returns at once, so that the rest comes from the history.
    async with prepared_matrix_room(tmp_path) as other:
        other.matrix.homeserver = room.matrix.homeserver
        for number in range(230):
            room.alice.send(str(number))
        async with other.running():
            await other.until_accepted(230)
            room.alice.send("after")
            await other.until_accepted(231)
            assert texts(other) == [*map(str, range(230)), "after"]


class HangingControl(FakeControlClient):
    """Control that never answers to one text, and counts the requests."""

    requests = 0

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        self.requests += 1
        if message.text == "hang":
            await asyncio.Event().wait()
        return await super().accept(message)


async def test_a_stop_in_the_middle_of_a_batch_sends_nothing_to_control_twice(
    tmp_path: Path,
) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        control = HangingControl(room.control.table)
        room.control = control
        async with room.running():
            await room.alice.start_joined_room()
            await room.until_connected()
            room.alice.send("/status")
            room.alice.send("hang")
            async with asyncio.timeout(60):
                while control.requests < 2:
                    await asyncio.sleep(0.02)
        room.control = FakeControlClient(room.control.table)
        async with room.running():
            await room.until_accepted(1)
            assert texts(room) == ["hang"]


async def test_a_lost_connection_is_made_again_and_loses_nothing(room: MatrixRoom) -> None:
    room.matrix.disconnected = True
    room.alice.send("while away")
    async with asyncio.timeout(60):
        while not room.channel.state().detail:
            room.matrix.homeserver.note_change()
            await asyncio.sleep(0.02)
    room.matrix.disconnected = False
    await room.until_accepted(1)
    await room.until_connected()
    assert texts(room) == ["while away"]


async def test_failures_of_the_homeserver_are_waited_for(room: MatrixRoom) -> None:
    room.matrix.script(
        SYNC,
        ErrorResponse(502),
        TooManyRequests(100),
        TooManyRequests(0, has_header=True),
        token=TOKEN,
    )
    room.alice.send("one")
    await room.until_accepted(1)
    room.alice.send("two")
    await room.until_accepted(2)
    assert texts(room) == ["one", "two"]


async def test_a_position_that_the_homeserver_lost_is_left_for_the_present(
    room: MatrixRoom,
) -> None:
    await room.alice.until_read()
    calls = room.bot.count_calls(SYNC)
    room.matrix.script(SYNC, ErrorResponse(400, "M_UNKNOWN_POS"), token=TOKEN)
    room.alice.send("one")
    await room.until_accepted(1)
    # The refused call, the one for the present, and the next long poll.
    await room.alice.wait_until(lambda: room.bot.count_calls(SYNC) >= calls + 3)
    await room.alice.until_read()
    room.alice.send("two")
    await room.until_accepted(2)
    assert texts(room) == ["one", "two"]


async def test_a_wrong_token_is_named_and_not_tried_in_a_loop(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.token = "wrong_token"
        async with room.running():
            async with asyncio.timeout(60):
                while "M_UNKNOWN_TOKEN" not in room.channel.state().detail:
                    await asyncio.sleep(0.02)
            assert "choirctl secret set" in room.channel.state().detail
            assert "wrong_token" not in room.channel.state().detail
            with pytest.raises(Unavailable):
                await room.deliver(room.message("hello"))
            assert room.matrix.refused_tokens == 1


async def test_a_session_that_was_logged_out_is_named(room: MatrixRoom) -> None:
    room.bot.log_out(TOKEN)
    room.alice.send("hello?")
    async with asyncio.timeout(60):
        while "M_UNKNOWN_TOKEN" not in room.channel.state().detail:
            room.matrix.homeserver.note_change()
            await asyncio.sleep(0.02)


async def test_an_address_without_a_homeserver_is_named(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room:
        room.matrix.script("GET /_matrix/client/v3/account/whoami", ErrorResponse(404), token=TOKEN)
        async with room.running():
            async with asyncio.timeout(60):
                while "no Matrix homeserver" not in room.channel.state().detail:
                    await asyncio.sleep(0.02)


async def test_an_encrypted_room_gets_one_answer_and_a_way_out(room: MatrixRoom) -> None:
    readable = room.alice.room
    secret = room.alice.start_room(is_encrypted=True)
    await room.alice.wait_until(lambda: secret.membership(room.bot.user_id) == "join")
    for _ in range(2):
        room.alice.send_encrypted(secret)
    room.alice.send("readable", room=readable)
    await room.until_accepted(1)
    assert "cannot read encrypted messages" in (await room.alice.receive()).body
    await room.alice.until_read()
    assert len(room.alice.shown(secret)) == 1
    assert texts(room) == ["readable"]
    await room.deliver(room.message("an answer"))
    assert [it.body for it in room.alice.shown(readable)] == ["an answer"]


async def test_a_user_with_an_encrypted_room_only_is_invited_to_another(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room, room.running():
        secret = room.alice.start_room(is_encrypted=True)
        await room.alice.wait_until(lambda: secret.membership(room.bot.user_id) == "join")
        room.alice.send_encrypted(secret)
        warning = await room.alice.receive()
        assert "I have invited you to one" in warning.body
        assert room.alice.room is not secret and not room.alice.room.is_encrypted
        room.alice.join()
        room.alice.send("hello")
        await room.until_accepted(1)
        assert texts(room) == ["hello"]


async def test_a_homeserver_that_encrypts_every_room_is_named(tmp_path: Path) -> None:
    async with prepared_matrix_room(tmp_path) as room, room.running():
        room.matrix.homeserver.encrypts_all = True
        await room.until_connected()
        receipt = await room.deliver(room.message("hello"))
        assert (receipt.status, "encrypts every new room" in receipt.detail) == (
            "undeliverable",
            True,
        )
        assert room.alice.shown() == []


async def test_a_message_is_marked_as_read_and_acknowledged(tmp_path: Path) -> None:
    async with opened_matrix_room(tmp_path, acknowledgement="👀") as room:
        sent = room.alice.send("hello")
        place = room.alice.room
        await room.alice.wait_until(lambda: len(place.reactions(sent.event_id)) == 1)
        assert place.reactions(sent.event_id) == [(room.bot.user_id, "👀")]
        assert room.bot.receipts[place.room_id] == sent.event_id
        edit = room.alice.edit(sent.event_id, "hello!")
        await room.alice.wait_until(lambda: room.bot.receipts[place.room_id] == edit.event_id)
        assert len(list(place.events("m.reaction"))) == 1


@pytest.mark.parametrize(
    ("msgtype", "fields", "kind"),
    [
        ("m.image", {}, "photo"),
        ("m.audio", {}, "audio"),
        ("m.audio", {"org.matrix.msc3245.voice": {}}, "voice"),
        ("m.video", {}, "video"),
        ("m.file", {}, "document"),
    ],
)
async def test_a_users_file_is_read_with_the_token(
    room: MatrixRoom, msgtype: str, fields: dict[str, JsonObject], kind: str
) -> None:
    room.alice.send_file(
        "übung.bin", CONTENT, "image/png", msgtype=msgtype, caption="look", **fields
    )
    await room.until_accepted(1)
    (message,) = room.control.accepted
    (attachment,) = message.attachments
    assert (message.text, attachment.kind, attachment.mime) == ("look", kind, "image/png")
    assert (attachment.name, attachment.size) == ("übung.bin", len(CONTENT))
    assert await room.read(attachment.ref) == CONTENT


async def test_a_redirected_download_does_not_take_the_token_along(room: MatrixRoom) -> None:
    room.matrix.redirects_media = True
    room.alice.send_file("a.bin", CONTENT, "application/pdf")
    await room.until_accepted(1)
    (attachment,) = room.control.accepted[0].attachments
    assert await room.read(attachment.ref) == CONTENT
    assert room.matrix.media_tokens == [None]


async def test_a_file_that_is_gone_says_so(room: MatrixRoom) -> None:
    room.alice.send_file("a.bin", CONTENT, "application/pdf")
    await room.until_accepted(1)
    (attachment,) = room.control.accepted[0].attachments
    room.matrix.script(DOWNLOAD, ErrorResponse(502), token=TOKEN)
    with pytest.raises(Unavailable):
        await room.read(attachment.ref)
    room.matrix.homeserver.media.clear()
    for ref in (attachment.ref, "mxc://example.org/../../../admin", "https://example.org/x"):
        with pytest.raises(NotFound):
            await room.read(ref)
