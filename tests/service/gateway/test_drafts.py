"""Drafts of replies: what a channel's user sees while the model writes, and what replaces it."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from choir_common.http.response_parser import ServerSentEvent, parse_events
from choir_common.wire.activity import DmActivity, Draft, Idle
from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import ChannelTable, OutboundMessage
from choir_gateway.channels.console.channel import ConsoleChannel
from choir_gateway.channels.spool import FileSpool, SpoolLimits
from choir_testing.fake_control_inbox import FakeControlClient
from choir_testing.fake_outbox_files import FakeOutboxFiles
from choir_testing.telegram import Delay, ErrorResponse, TooManyRequests
from tests.service.gateway.telegram_room import TOKEN, Room, opened_room


class Console:
    """A console channel in the test's own loop."""

    def __init__(self, root: Path) -> None:
        self.control = FakeControlClient(ChannelTable(config_version=1, gateways=(), dms=()))
        spool = FileSpool(root, SpoolLimits(1_000, 1_000, timedelta(days=1)))
        self.channel = ConsoleChannel(self.control, spool, FakeOutboxFiles())

    def show(self, what: Draft | Idle) -> None:
        self.channel.show(DmActivity(dm="console", gateway="console", what=what), "u")

    def write(self, text: str) -> None:
        self.show(Draft(text=text))

    async def say(self, text: str, number: int, kind: ReplyKind = "answer") -> None:
        message = OutboundMessage(
            outbox_id=number,
            dm="console",
            gateway="console",
            agent_id="main",
            session_id="s",
            rev=number,
            kind=kind,
            text=text,
            answers=None,
            at=datetime.now(UTC),
        )
        self.control.outbox.append(message)
        await self.channel.deliver(message, "u")


@pytest.fixture
def console(tmp_path: Path) -> Console:
    return Console(tmp_path)


class Reader:
    """A client of a stream, as fast as the test reads."""

    def __init__(self, console: Console, after: int | None = None) -> None:
        self._bytes = console.channel.follow("console", after)
        self._events = parse_events(self._counted())
        self.draft = ""

    async def _counted(self) -> AsyncIterator[bytes]:
        async for part in self._bytes:
            yield part

    async def open(self) -> None:
        """Connect: the stream begins with a comment."""
        await anext(self._bytes)

    async def next(self) -> ServerSentEvent:
        """Return the next event; keep the draft as the documentation says."""
        async with asyncio.timeout(60):
            event = await anext(self._events)
        data = json.loads(event.data)
        if event.event == "delta":
            assert event.id == ""
            self.draft = ("" if data["offset"] == 0 else self.draft) + data["text"]
        elif event.event == "message" and data["kind"] not in ("notice", "message"):
            self.draft = ""
        return event


async def test_a_client_gets_what_is_new_and_the_message_ends_the_draft(console: Console) -> None:
    reader = Reader(console)
    await reader.open()
    for text in ("Once", "Once upon", "Once upon a time"):
        console.write(text)
        assert (await reader.next()).event == "delta"
        assert reader.draft == text
    await console.say("wait a moment", 1, "notice")
    assert (await reader.next()).event == "message"
    assert reader.draft == "Once upon a time"
    await console.say("Once upon a time.", 2)
    assert (await reader.next()).id == "2"
    # the next draft begins again, although its text continues the old one
    console.write("Once upon a time there")
    assert json.loads((await reader.next()).data) == {"offset": 0, "text": "Once upon a time there"}


async def test_a_retry_replaces_the_draft(console: Console) -> None:
    reader = Reader(console)
    await reader.open()
    for text in ("Once upon", "", "In the beginning"):
        console.write(text)
        assert json.loads((await reader.next()).data) == {"offset": 0, "text": text}
    assert reader.draft == "In the beginning"


async def test_who_comes_in_the_middle_gets_the_draft_so_far(console: Console) -> None:
    await console.say("an earlier reply", 1)
    console.write("Once upon")
    reader = Reader(console, after=0)
    await reader.open()
    assert (await reader.next()).event == "message"
    await reader.next()
    assert reader.draft == "Once upon"
    console.write("Once upon a time")
    assert json.loads((await reader.next()).data) == {"offset": 9, "text": " a time"}


async def test_a_draft_that_ended_is_shown_to_nobody(console: Console) -> None:
    console.write("Once upon")
    await console.say("Once upon a time.", 1)
    console.write("And")
    console.show(Idle())
    reader = Reader(console, after=1)
    await reader.open()
    await console.say("next", 2)
    assert (await reader.next()).event == "message"


async def test_a_slow_client_delays_nobody_and_misses_no_message(console: Console) -> None:
    slow, quick = Reader(console), Reader(console)
    await slow.open()
    await quick.open()
    for count in range(1, 2001):
        console.write("x" * count)
    await console.say("the reply", 1)
    console.write("the next draft")
    for reader in (slow, quick):
        kinds = [(await reader.next()).event for _ in range(2)]
        assert "message" in kinds
        while reader.draft != "the next draft":
            await reader.next()


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room() as opened:
        yield opened


async def sees(room: Room, text: str) -> None:
    """Wait until the user sees a draft."""
    async with asyncio.timeout(60):
        await room.alice.wait_until(lambda chat: chat.draft is not None and chat.draft.text == text)


async def test_telegram_shows_the_newest_draft_until_the_reply(room: Room) -> None:
    for text in (" \n", "Once", "Once **upon**"):
        room.show(Draft(text=text))
    await sees(room, "Once upon")
    await room.deliver(room.message("Once upon a time."))
    assert room.alice.chat.draft is None
    room.show(Draft(text="And then"))
    await sees(room, "And then")
    ids = {draft.draft_id for draft in room.alice.chat.drafts}
    assert len(ids) == 2


async def test_a_draft_on_its_way_never_appears_behind_the_reply(room: Room) -> None:
    room.telegram.script("sendMessageDraft", Delay(0.3), token=TOKEN)
    room.show(Draft(text="Once"))
    async with asyncio.timeout(60):
        while not [c for c in room.telegram.bot(TOKEN).calls if c.method == "sendMessageDraft"]:
            await asyncio.sleep(0.01)
    await room.deliver(room.message("Once upon a time."))
    assert room.alice.chat.draft is None
    assert len(room.alice.chat.drafts) == 1


async def test_drafts_stay_below_telegrams_limits_and_give_way_to_replies(room: Room) -> None:
    traffic = room.telegram.limit_rate(TOKEN)
    for number in range(30):
        room.show(Draft(text=f"draft {number}"))
        await asyncio.sleep(0.1)
    for number in range(3):
        await room.deliver(room.message(f"part {number}"))
    assert traffic.refused == 0
    assert room.alice.chat.bot_texts() == ["part 0", "part 1", "part 2"]
    assert 1 < len(room.alice.chat.drafts) <= 5


async def test_a_draft_is_shown_in_the_end_through_limits_and_failures(room: Room) -> None:
    faults = (TooManyRequests(1), ErrorResponse(502, "Bad Gateway"))
    room.telegram.script("sendMessageDraft", *faults, token=TOKEN)
    room.show(Draft(text="Once"))
    await sees(room, "Once")


async def test_of_a_long_draft_telegram_shows_the_end(room: Room) -> None:
    lines = "\n".join(f"line {number}" for number in range(2000))
    room.show(Draft(text=lines))
    async with asyncio.timeout(60):
        await room.alice.wait_until(lambda chat: chat.draft is not None)
    draft = room.alice.chat.draft
    assert draft is not None
    assert draft.text.startswith("line ")
    assert draft.text.endswith("line 1999")


async def test_a_server_that_knows_no_drafts_is_asked_once(room: Room) -> None:
    room.telegram.script(
        "sendMessageDraft", ErrorResponse(404, "Not Found: method not found"), token=TOKEN
    )
    room.show(Draft(text="Once"))

    def asked() -> int:
        calls = room.telegram.bot(TOKEN).calls
        return len([call for call in calls if call.method == "sendMessageDraft"])

    async with asyncio.timeout(60):
        while not asked():
            await asyncio.sleep(0.01)
    await room.deliver(room.message("Once upon a time."))
    room.show(Draft(text="And"))
    await room.deliver(room.message("And then."))
    assert room.alice.chat.bot_texts() == ["Once upon a time.", "And then."]
    assert asked() == 1
