"""Messages over a Slack app: received once and in order, also over broken connections and restarts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import NotFound, Unavailable
from choir_common.wire.attachments import AttachmentKind
from choir_common.wire.messages import InboundAccepted, InboundMessage
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.slack import ErrorCode, TooManyRequests
from choir_testing.slack.accounts import FakeFile
from tests.service.gateway.slack_room import (
    ALICE,
    BOT_TOKEN,
    SlackRoom,
    opened_slack_room,
    prepared_slack_room,
)

CONTENT = bytes(range(256)) * 300


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[SlackRoom]:
    async with opened_slack_room(tmp_path) as opened:
        yield opened


def texts(room: SlackRoom) -> list[str]:
    return [message.text for message in room.control.accepted]


async def test_a_message_reaches_control_with_its_id_and_its_time(room: SlackRoom) -> None:
    sent = await room.alice.send("hello <you> & me")
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert (message.gateway, message.dm, message.text) == ("bot", "alice", "hello <you> & me")
    assert message.message_id == sent.ts
    assert message.update_id == f"{room.alice.channel.channel_id}:{sent.ts}"
    assert abs(message.sent_at.timestamp() - float(sent.ts)) < 0.001


async def test_strangers_apps_and_other_channels_are_ignored_in_silence(room: SlackRoom) -> None:
    stranger = room.slack.user("U9")
    await stranger.send("let me in")
    await room.alice.pin()
    room.alice.forge_message("in a room", channel_id="C0123", channel_type="channel")
    room.alice.forge_message("elsewhere", channel_id=stranger.channel.channel_id)
    await room.deliver(room.message("an own message"))
    await room.alice.send("hello")
    await room.until_accepted(1)
    assert texts(room) == ["hello"]
    assert await stranger.receives_nothing()


async def test_a_stranger_gets_one_code_where_the_gateway_allows_it(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.pairing = True
        async with room.running():
            await room.until_connected()
            await room.until_histories_read(4)
            stranger = room.slack.user("U9")
            for _ in range(2):
                await stranger.send("let me in")
            assert "CODE1" in (await stranger.receive()).text
            await room.alice.send("hello")
            await room.until_accepted(1)
            assert await stranger.receives_nothing(0.2)
    assert texts(room) == ["hello"] and [it.user_id for it in room.control.strangers] == ["U9"]


async def test_messages_of_a_user_stay_in_order(room: SlackRoom) -> None:
    for number in range(20):
        await room.alice.send(str(number))
    await room.until_accepted(20)
    assert texts(room) == [str(number) for number in range(20)]


async def test_every_envelope_is_acknowledged_at_once_even_while_control_is_away(
    tmp_path: Path,
) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.control = BusyControl(room.control.table)
        room.control.failures = 10_000
        async with room.running():
            await room.until_connected()
            sent = [room.alice.repeat(await room.alice.send("one")) for _ in range(3)]
            async with asyncio.timeout(60):
                for envelope in sent:
                    await envelope.is_acknowledged.wait()
            assert texts(room) == []
            room.control.failures = 0
            await room.until_accepted(3)


async def test_a_repeated_envelope_is_one_message(room: SlackRoom) -> None:
    room.app.sockets.ack_timeout_s = 0.1
    room.app.sockets.ignores_acknowledgements = True
    first = await room.alice.send("once")
    async with asyncio.timeout(60):
        while room.app.sockets.open_envelopes:
            await asyncio.sleep(0.02)
    room.app.sockets.ignores_acknowledgements = False
    room.alice.repeat(first)
    await room.alice.send("then")
    await room.until_accepted(2)
    assert texts(room) == ["once", "then"]


async def test_a_late_event_of_an_older_message_is_not_lost(room: SlackRoom) -> None:
    connections, room.app.sockets.connections = room.app.sockets.connections, []
    first = await room.alice.send("the first")
    await asyncio.sleep(0)
    room.app.sockets.connections = connections
    await room.alice.send("the second")
    await room.until_accepted(1)
    room.alice.repeat(first)
    await room.until_accepted(2)
    assert texts(room) == ["the second", "the first"]


async def test_an_edit_corrects_its_message_and_a_preview_does_not(room: SlackRoom) -> None:
    sent = await room.alice.send("at ten https://example.com")
    await room.alice.show_preview(sent)
    await room.alice.edit(sent, "at eleven")
    await room.alice.show_preview(sent)
    await room.alice.send("end")
    await room.until_accepted(3)
    first, second, third = room.control.accepted
    assert (first.text, first.edits) == ("at ten https://example.com", None)
    assert (second.text, second.edits, second.message_id) == ("at eleven", sent.ts, sent.ts)
    assert third.text == "end"


async def test_a_reply_in_a_thread_brings_the_text_it_replies_to(room: SlackRoom) -> None:
    await room.deliver(room.message("shall **I**?"))
    asked = await room.alice.receive()
    await room.alice.send("do", below=asked)
    await room.until_accepted(1)
    quoted = room.control.accepted[0].reply_to
    assert quoted is not None
    assert (quoted.message_id, quoted.text) == (asked.ts, "shall I?")


async def test_a_command_is_written_with_an_exclamation_mark(room: SlackRoom) -> None:
    for text in ("!status now", " /status", "!wonderful", "no !status"):
        await room.alice.send(text)
    await room.until_accepted(4)
    assert texts(room) == ["/status now", "/status", "!wonderful", "no !status"]


@pytest.mark.parametrize(
    ("mimetype", "subtype", "kind"),
    [
        ("image/png", None, "photo"),
        ("audio/mpeg", None, "audio"),
        ("audio/webm", "slack_audio", "voice"),
        ("video/mp4", None, "video"),
        ("application/pdf", None, "document"),
    ],
)
async def test_a_users_file_comes_with_its_kind_its_text_and_its_bytes(
    room: SlackRoom, mimetype: str, subtype: str | None, kind: AttachmentKind
) -> None:
    await room.alice.send_files(FakeFile("übung.bin", CONTENT, mimetype, subtype), text="look")
    await room.until_accepted(1)
    (message,) = room.control.accepted
    (attachment,) = message.attachments
    assert (message.text, attachment.kind, attachment.mime) == ("look", kind, mimetype)
    assert (attachment.name, attachment.size) == ("übung.bin", len(CONTENT))
    assert await room.read(attachment.ref) == CONTENT


async def test_a_file_elsewhere_is_named_and_gets_no_token(room: SlackRoom) -> None:
    address = "https://drive.example.com/1"
    file = FakeFile("plan", b"", external_url=address)
    await room.alice.send_files(file)
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert message.attachments == () and address in message.text
    with pytest.raises(NotFound):
        await room.read(file.file_id)


async def test_a_file_that_is_gone_says_so(room: SlackRoom) -> None:
    file = FakeFile("a.bin", CONTENT)
    await room.alice.send_files(file)
    await room.until_accepted(1)
    room.slack.disconnected = True
    with pytest.raises(Unavailable):
        await room.read(file.file_id)
    room.slack.disconnected = False
    file.is_deleted = True
    with pytest.raises(NotFound):
        await room.read(file.file_id)


async def test_a_login_page_is_never_taken_for_a_file(room: SlackRoom) -> None:
    file = FakeFile("a.bin", CONTENT)
    await room.alice.send_files(file)
    await room.until_accepted(1)
    room.app.serves_login_page = True
    with pytest.raises(Unavailable, match="302"):
        await room.read(file.file_id)
    room.app.scopes.remove("files:read")
    with pytest.raises(Unavailable, match="files:read"):
        await room.read(file.file_id)


class BusyControl(FakeControlClient):
    """Control that is unavailable for its first requests."""

    failures = 3

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        if self.failures:
            self.failures -= 1
            raise Unavailable
        return await super().accept(message)


async def test_what_was_sent_while_the_gateway_was_stopped_comes_once_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with prepared_slack_room(tmp_path) as room:
        await room.alice.send("before the first start")
        async with room.running():
            await room.until_connected()
            one = await room.alice.send("one")
            await room.until_marked(one)
        sent = [await room.alice.send(f"missed {number}") for number in range(220)]
        below = await room.alice.send("missed in a thread", below=one)
        await room.bob.send("missed by bob")
        async with room.running():
            await room.until_accepted(223)
            await room.alice.send("live")
            await room.until_accepted(224)
        of_alice = [it.text for it in room.control.accepted if it.dm == "alice"]
        assert of_alice == ["one", *(it.text for it in sent), below.text, "live"]
        assert "missed by bob" in texts(room)


async def test_no_message_is_asked_of_control_again_after_a_restart(tmp_path: Path) -> None:
    # Control stores no row for a command such as /status: a repetition would run it again.
    async with prepared_slack_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            await room.alice.send("!status")
            await room.until_accepted(1)
            sent = await room.alice.send("tow")
            await room.until_accepted(2)
            await room.alice.edit(sent, "two")
            await room.until_accepted(3)
            await room.until_marked(sent)
        room.control.accepted.clear()
        async with room.running():
            await room.until_connected()
            await room.alice.send("end")
            await room.until_accepted(1)
        assert texts(room) == ["end"]


async def test_an_edit_made_while_the_gateway_was_stopped_comes_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with prepared_slack_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            sent = await room.alice.send("at ten")
            await room.until_marked(sent)
        await room.alice.edit(sent, "at eleven")
        async with room.running():
            await room.until_accepted(2)
        assert room.control.accepted[1].edits == sent.ts


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_a_connection_that_ends_is_replaced_and_nothing_is_lost(
    room: SlackRoom, how: str
) -> None:
    await room.alice.send("one")
    await room.until_accepted(1)
    sockets = room.app.sockets
    sockets.close() if how == "close" else sockets.abort()
    async with asyncio.timeout(60):
        while sockets.connections:
            await asyncio.sleep(0.005)
    await room.alice.send("two")
    await room.until_opened(2)
    await room.until_connected()
    await room.alice.send("three")
    await room.until_accepted(3)
    assert texts(room) == ["one", "two", "three"]


async def test_an_announced_end_opens_the_next_connection_before_the_old_one_is_closed(
    room: SlackRoom,
) -> None:
    sockets = room.app.sockets
    (old,) = sockets.connections
    sockets.request_refresh()
    await room.until_opened(2)
    assert old in sockets.connections and len(sockets.connections) == 2
    sockets.connections.reverse()  # the old connection still brings an event
    await room.alice.send("over the old one")
    await room.until_accepted(1)
    sockets.connections.reverse()
    await room.alice.send("over the new one")
    await room.until_accepted(2)


async def test_an_outage_of_slack_is_told_and_ends(room: SlackRoom) -> None:
    room.slack.disconnected = True
    room.app.sockets.abort()
    await room.until_state("Slack")
    with pytest.raises(Unavailable):
        await room.deliver(room.message("hello"))
    room.slack.disconnected = False
    await room.alice.send("one")
    await room.until_accepted(1)
    await room.until_connected()


async def test_a_limited_rate_of_connections_is_waited_for(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.slack.script("apps.connections.open", TooManyRequests(1), ErrorCode("internal_error"))
        async with room.running():
            await room.until_connected()
        assert room.app.count_calls("apps.connections.open") == 3


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("invalid_auth", "choirctl secret set"),
        ("token_revoked", "Install the app again"),
        ("account_inactive", "removed from the workspace"),
    ],
)
async def test_a_refused_token_is_told_with_its_remedy(
    tmp_path: Path, code: str, words: str
) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.app.auth_error = code
        async with room.running():
            await room.until_state(words)
            with pytest.raises(Unavailable, match=words):
                await room.deliver(room.message("hello"))


async def test_a_wrong_app_token_is_told_with_its_remedy(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.app_token = BOT_TOKEN
        async with room.running():
            await room.until_state("app-level token")


async def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.app.scopes.remove("im:history")
        async with room.running():
            await room.until_state("lacks the permission im:history")


async def test_a_socket_mode_that_is_off_is_told(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        room.app.sockets.is_enabled = False
        async with room.running():
            await room.until_state("Socket Mode is off")


async def test_a_user_whose_history_cannot_be_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with prepared_slack_room(tmp_path) as room:
        unknown = ALICE.model_copy(update={"name": "unknown", "user_id": "U999"})
        room.conversations.replace((unknown, ALICE))
        async with room.running():
            await room.until_connected()
            await room.alice.send("hello")
            await room.until_accepted(1)


async def test_a_thread_that_was_deleted_keeps_nothing_else_from_being_read(
    tmp_path: Path,
) -> None:
    async with prepared_slack_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            root = await room.alice.send("root")
            await room.until_marked(await room.alice.send("below", below=root))
        room.alice.delete(root)
        await room.alice.send("missed")
        async with room.running():
            await room.until_accepted(3)
        assert texts(room) == ["root", "below", "missed"]


async def test_a_dm_that_is_added_counts_at_once_without_its_history(room: SlackRoom) -> None:
    carol = room.slack.user("U9")
    await carol.send("as a stranger")
    dm = ALICE.model_copy(update={"name": "carol", "user_id": "U9"})
    table = room.control.table = room.control.table.model_copy(update={"dms": (ALICE, dm)})
    await room.alice.send("before")
    await room.until_accepted(1)
    room.conversations.replace(table.dms)
    await carol.send("as carol")
    await room.until_accepted(2)
    room.app.sockets.abort()
    await room.until_opened(2)
    await room.until_connected()
    await carol.send("again")
    await room.until_accepted(3)
    assert texts(room) == ["before", "as carol", "again"]


async def test_lost_read_marks_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "bot.json").write_text('{"U7": 3')
    async with opened_slack_room(tmp_path) as room:
        await room.alice.send("hello")
        await room.until_accepted(1)
    assert "U7" in (tmp_path / "bot.json").read_text()


async def test_a_slack_app_has_no_webhook(room: SlackRoom) -> None:
    with pytest.raises(NotFound):
        await room.channel.take_update(b"{}", {})
