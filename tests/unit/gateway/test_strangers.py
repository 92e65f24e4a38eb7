"""Replies to strangers: few, never repeated within an hour, and none unless the gateway allows it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from telegram import Update

from choir_common.errors import Unavailable
from choir_common.wire.messages import ChannelTable, DmBinding, GatewayBinding
from choir_common.wire.pairing import PairingOffer, RequestPairing
from choir_gateway.channels import strangers
from choir_gateway.channels.interface import ConversationDirectory
from choir_gateway.channels.notes import NoteQueue
from choir_gateway.channels.strangers import MAX_AN_HOUR, Stranger, StrangerReplies
from choir_gateway.channels.telegram.update_parser import parse_stranger
from choir_testing.fake_control_inbox import FakeControlClient


class ShownNotes:
    """Sender that keeps the notes of each user."""

    def __init__(self) -> None:
        self.notes: list[tuple[str, str]] = []

    async def send_note(self, user_id: str, text: str) -> None:
        self.notes.append((user_id, text))


class StoppedControl(FakeControlClient):
    """Control that cannot be reached at first."""

    failures = 1

    async def request_pairing(self, request: RequestPairing) -> PairingOffer:
        if self.failures:
            self.failures -= 1
            raise Unavailable
        return await super().request_pairing(request)


@contextlib.asynccontextmanager
async def replying(
    control: FakeControlClient, *, pairing: bool = True
) -> AsyncIterator[tuple[StrangerReplies, ShownNotes]]:
    shown = ShownNotes()
    notes = NoteQueue(shown)
    gateway = GatewayBinding(name="bot", type="telegram", secret="t", api_url=None, pairing=pairing)
    replies = StrangerReplies(gateway, control=control, notes=notes)
    tasks = [asyncio.create_task(replies.run()), asyncio.create_task(notes.run())]
    try:
        yield replies, shown
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def settle() -> None:
    """Let all tasks run until they wait; nothing here waits for the outside."""
    for _ in range(2_000):
        await asyncio.sleep(0)


def make_control() -> FakeControlClient:
    return FakeControlClient(ChannelTable(config_version=1, gateways=(), dms=()))


async def test_a_flood_costs_a_limited_number_of_replies_and_no_memory() -> None:
    control = make_control()
    async with replying(control) as (replies, shown):
        for _ in range(3):
            for number in range(2_000):
                replies.add(Stranger(f"{number}", "x" * 4_000))
        await settle()
        assert len(replies._recent) == MAX_AN_HOUR
    assert [user for user, _ in shown.notes] == [f"{number}" for number in range(MAX_AN_HOUR)]
    assert {len(it.user_name) for it in control.strangers} == {40}


async def test_a_user_gets_the_next_reply_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    control = make_control()
    async with replying(control) as (replies, shown):
        replies.add(Stranger("1", "Eve"))
        replies.add(Stranger("1", "Eve"))
        await settle()
        assert len(shown.notes) == 1
        monkeypatch.setattr(strangers, "HOUR_S", 0.0)
        replies.add(Stranger("2", "Mallory"))
        replies.add(Stranger("2", "Mallory"))
        await settle()
    assert [user for user, _ in shown.notes] == ["1", "2", "2"]


@pytest.mark.parametrize(("pairing", "user_id"), [(False, "1"), (True, "../1"), (True, "1" * 33)])
async def test_silence_is_the_default_and_the_answer_to_impossible_ids(
    pairing: bool, user_id: str
) -> None:
    control = make_control()
    async with replying(control, pairing=pairing) as (replies, shown):
        replies.add(Stranger(user_id, ""))
        await settle()
    assert shown.notes == [] and control.strangers == []


async def test_a_user_can_try_again_after_a_failure_of_control() -> None:
    control = StoppedControl(ChannelTable(config_version=1, gateways=(), dms=()))
    async with replying(control) as (replies, shown):
        for _ in range(2):
            replies.add(Stranger("1", "Eve"))
            await settle()
    assert shown.notes == [("1", "Your pairing code is CODE1.")]


@pytest.mark.parametrize(
    ("kind", "chat", "sender", "is_stranger"),
    [
        ("message", {"id": 9, "type": "private"}, {"id": 9, "is_bot": False}, True),
        ("message", {"id": 9, "type": "private"}, {"id": 9, "is_bot": True}, False),
        ("message", {"id": 7, "type": "private"}, {"id": 7, "is_bot": False}, False),
        ("message", {"id": -5, "type": "group"}, {"id": 9, "is_bot": False}, False),
        ("edited_message", {"id": 9, "type": "private"}, {"id": 9, "is_bot": False}, False),
    ],
)
def test_only_a_new_message_of_an_unknown_person_in_a_private_chat_is_a_strangers(
    kind: str, chat: dict[str, object], sender: dict[str, object], is_stranger: bool
) -> None:
    directory = ConversationDirectory()
    directory.replace([DmBinding(name="alice", gateway="bot", user_id="7", admin=False)])
    message = {
        "message_id": 1,
        "date": 1_700_000_000,
        "text": "hi",
        "chat": chat,
        "from": {**sender, "first_name": "Eve", "last_name": "X"},
    }
    update = Update.de_json({"update_id": 1, kind: message}, None)
    expected = Stranger("9", "Eve X") if is_stranger else None
    assert parse_stranger(update, "bot", directory) == expected
