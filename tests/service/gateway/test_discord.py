"""Messages over a Discord bot: received once and in order, also over broken connections and restarts."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import NotFound, Unavailable
from choir_common.wire.messages import InboundAccepted, InboundMessage
from choir_testing.fake_control_inbox import FakeControlClient
from tests.service.gateway.discord_room import (
    ALICE,
    TOKEN,
    DiscordRoom,
    opened_discord_room,
    prepared_discord_room,
)

HISTORY = "GET /channels/{channel_id}/messages"


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[DiscordRoom]:
    async with opened_discord_room(tmp_path) as opened:
        yield opened


def texts(room: DiscordRoom) -> list[str]:
    return [message.text for message in room.control.accepted]


async def until_sessions(room: DiscordRoom, *, identified: int = 1, resumed: int = 0) -> None:
    """Wait until the bot has started and resumed so many sessions."""
    sessions = room.bot.sessions
    async with asyncio.timeout(60):
        while sessions.identified < identified or sessions.resumed < resumed:
            await asyncio.sleep(0.02)


async def test_a_message_reaches_control_with_its_id_and_its_time(room: DiscordRoom) -> None:
    sent = await room.alice.send("hello")
    await room.until_accepted(1)
    (message,) = room.control.accepted
    assert (message.gateway, message.dm, message.text) == ("bot", "alice", "hello")
    assert message.update_id == message.message_id == str(sent.message_id)
    assert abs((message.sent_at - sent.sent_at).total_seconds()) < 5


async def test_strangers_are_ignored_in_silence(room: DiscordRoom) -> None:
    stranger = room.discord.user(9, TOKEN)
    await stranger.send("let me in")
    await room.alice.send("hello")
    await room.until_accepted(1)
    assert texts(room) == ["hello"]
    assert await stranger.receives_nothing()


async def test_a_stranger_gets_one_code_where_the_gateway_allows_it(tmp_path: Path) -> None:
    async with prepared_discord_room(tmp_path) as room:
        room.pairing = True
        async with room.running():
            await room.until_connected()
            stranger = room.discord.user(9, TOKEN)
            for _ in range(2):
                await stranger.send("let me in")
            assert "CODE1" in (await stranger.receive()).text
            await room.alice.send("hello")
            await room.until_accepted(1)
            assert await stranger.receives_nothing(0.2)
    assert texts(room) == ["hello"] and [it.user_id for it in room.control.strangers] == ["9"]


async def test_messages_of_a_user_stay_in_order(room: DiscordRoom) -> None:
    for number in range(20):
        await room.alice.send(str(number))
    await room.until_accepted(20)
    assert texts(room) == [str(number) for number in range(20)]


async def test_an_event_that_comes_twice_is_one_message(room: DiscordRoom) -> None:
    first = await room.alice.send("once")
    room.alice.repeat(first)
    await room.alice.send("then")
    await room.until_accepted(2)
    assert texts(room) == ["once", "then"]


async def test_an_edit_corrects_its_message_and_a_preview_does_not(room: DiscordRoom) -> None:
    sent = await room.alice.send("at ten https://example.com")
    await room.until_accepted(1)  # a history that is read later has the corrected text
    await room.alice.show_preview(sent)
    await room.alice.edit(sent, "at eleven")
    await room.alice.show_preview(sent)
    await room.alice.send("end")
    await room.until_accepted(3)
    first, second, third = room.control.accepted
    assert (first.text, first.edits) == ("at ten https://example.com", None)
    assert (second.text, second.edits) == ("at eleven", str(sent.message_id))
    assert second.message_id == str(sent.message_id)
    assert third.text == "end"


async def test_a_reply_brings_the_text_it_replies_to(room: DiscordRoom) -> None:
    await room.deliver(room.message("shall I?"))
    asked = await room.alice.receive()
    await room.alice.send("do", reply_to=asked)
    await room.until_accepted(1)
    quoted = room.control.accepted[0].reply_to
    assert quoted is not None
    assert (quoted.message_id, quoted.text) == (str(asked.message_id), "shall I?")


async def test_a_sticker_is_told_and_a_notice_of_discord_is_not(room: DiscordRoom) -> None:
    await room.alice.start_call()
    await room.alice.send_sticker("wave")
    await room.until_accepted(1)
    assert texts(room) == ["[The user sent a sticker, which cannot be read here.]"]


class BusyControl(FakeControlClient):
    """Control that is unavailable for its first requests."""

    failures = 3

    async def accept(self, message: InboundMessage) -> InboundAccepted:
        if self.failures:
            self.failures -= 1
            raise Unavailable
        return await super().accept(message)


async def test_a_message_waits_for_control(tmp_path: Path) -> None:
    async with prepared_discord_room(tmp_path) as room:
        room.control = BusyControl(room.control.table)
        async with room.running():
            await room.until_connected()
            await room.alice.send("one")
            await room.alice.send("two")
            await room.until_accepted(2)
            assert texts(room) == ["one", "two"]


async def test_what_was_sent_while_the_gateway_was_stopped_comes_once_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with prepared_discord_room(tmp_path) as room:
        await room.alice.send("before the first start")
        async with room.running():
            await room.until_connected()
            await room.alice.send("one")
            await room.until_accepted(1)
        room.bot.sessions.forget()
        sent = [await room.alice.send(f"missed {number}") for number in range(120)]
        await room.bob.send("missed by bob")
        async with room.running():
            await room.alice.send("live")
            await room.until_accepted(123)
        assert texts(room)[:2] == ["one", "missed 0"]
        of_alice = [it.text for it in room.control.accepted if it.dm == "alice"]
        assert of_alice == ["one", *(it.text for it in sent), "live"]
        assert "missed by bob" in texts(room)
        calls = room.bot.count_calls(HISTORY)
        async with room.running():
            await room.until_connected()
            async with asyncio.timeout(60):
                while room.bot.count_calls(HISTORY) < calls + 2:
                    await asyncio.sleep(0.02)
            await room.alice.send("end")
            await room.until_accepted(124)
        assert texts(room)[-1] == "end"


async def test_no_message_is_asked_of_control_again_after_a_restart(tmp_path: Path) -> None:
    # Control stores no row for a command such as /status: a repetition would run it again.
    async with prepared_discord_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            await room.alice.send("/status")
            await room.until_accepted(1)
            await room.alice.edit(await room.alice.send("tow"), "two")
            await room.until_accepted(3)
        room.control.accepted.clear()
        async with room.running():
            await room.until_connected()
            await room.alice.send("end")
            await room.until_accepted(1)
        assert texts(room) == ["end"]


async def test_an_edit_made_while_the_gateway_was_stopped_comes_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with prepared_discord_room(tmp_path) as room:
        async with room.running():
            await room.until_connected()
            sent = await room.alice.send("at ten")
            await room.until_accepted(1)
        room.bot.sessions.forget()
        await room.alice.edit(sent, "at eleven")
        async with room.running():
            await room.until_accepted(2)
        assert room.control.accepted[1].edits == str(sent.message_id)


@pytest.mark.parametrize("how", ["reconnect", "abort", "close 4000", "close 4009", "invalid"])
async def test_a_connection_that_ends_is_resumed_and_nothing_is_lost(
    room: DiscordRoom, how: str
) -> None:
    await room.alice.send("one")
    await room.until_accepted(1)
    sessions = room.bot.sessions
    match how.split():
        case ["reconnect"]:
            sessions.request_reconnect()
        case ["abort"]:
            sessions.abort()
        case ["close", code]:
            sessions.close(int(code))
        case _:
            sessions.invalidate(is_resumable=True)
    await room.alice.send("two")
    await until_sessions(room, resumed=1)
    await room.alice.send("three")
    await room.until_accepted(3)
    assert texts(room) == ["one", "two", "three"]
    assert sessions.identified == 1


async def test_a_lost_session_is_replaced_and_nothing_is_lost(room: DiscordRoom) -> None:
    await room.alice.send("one")
    await room.until_accepted(1)
    sessions = room.bot.sessions
    sessions.forget()
    sessions.abort()
    await room.alice.send("two")
    await until_sessions(room, identified=2)
    await room.alice.send("three")
    await room.until_accepted(3)
    assert texts(room) == ["one", "two", "three"]


async def test_an_invalid_session_is_replaced_at_once(room: DiscordRoom) -> None:
    sessions = room.bot.sessions
    sessions.invalidate(is_resumable=False)
    sessions.forget()
    await room.alice.send("one")
    await until_sessions(room, identified=2)
    await room.until_accepted(1)
    assert sessions.resumed == 0


async def test_a_zombied_connection_is_replaced(tmp_path: Path) -> None:
    async with prepared_discord_room(tmp_path, heartbeat_s=0.2) as room:
        room.heartbeat_timeout_s = 1.0
        async with room.running():
            await room.until_connected()
            room.bot.sessions.silence()
            await room.alice.send("hello")
            await until_sessions(room, resumed=1)
            await room.until_accepted(1)
            assert room.bot.sessions.heartbeats > 0


async def test_an_outage_of_discord_is_told_and_ends(room: DiscordRoom) -> None:
    room.discord.disconnected = True
    room.bot.sessions.abort()
    async with asyncio.timeout(60):
        while "Discord" not in room.channel.state().detail:
            await asyncio.sleep(0.02)
    with pytest.raises(Unavailable):
        await room.deliver(room.message("hello"))
    room.discord.disconnected = False
    await room.alice.send("one")
    await room.until_accepted(1)
    await room.until_connected()


async def test_a_refused_token_is_told_with_its_remedy(tmp_path: Path) -> None:
    async with prepared_discord_room(tmp_path) as room:
        room.token = "wrong"
        async with room.running():
            async with asyncio.timeout(60):
                while "refuses the bot's token" not in room.channel.state().detail:
                    await asyncio.sleep(0.02)
            assert "choirctl secret set" in room.channel.state().detail
            with pytest.raises(Unavailable):
                await room.deliver(room.message("hello"))


async def test_a_user_whose_history_cannot_be_read_keeps_nobody_waiting(tmp_path: Path) -> None:
    async with prepared_discord_room(tmp_path) as room:
        unknown = ALICE.model_copy(update={"name": "unknown", "user_id": "999"})
        room.conversations.replace((unknown, ALICE))
        async with room.running():
            await room.until_connected()
            await room.alice.send("hello")
            await room.until_accepted(1)


async def test_a_dm_that_is_added_counts_at_once_without_its_history(room: DiscordRoom) -> None:
    carol = room.discord.user(9, TOKEN)
    await carol.send("as a stranger")
    dm = ALICE.model_copy(update={"name": "carol", "user_id": "9"})
    table = room.control.table = room.control.table.model_copy(update={"dms": (ALICE, dm)})
    await room.alice.send("before")
    await room.until_accepted(1)
    room.conversations.replace(table.dms)
    room.bot.sessions.forget()
    room.bot.sessions.abort()
    await until_sessions(room, identified=2)
    await carol.send("as carol")
    await room.until_accepted(2)
    assert texts(room) == ["before", "as carol"]


async def test_a_discord_bot_has_no_webhook(room: DiscordRoom) -> None:
    with pytest.raises(NotFound):
        await room.channel.take_update(b"{}", "secret")
