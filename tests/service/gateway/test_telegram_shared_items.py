"""Locations, places and contacts that a user sends reach the agent as text."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.service.gateway.telegram_room import TOKEN, Room, opened_room


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room() as opened:
        yield opened


async def accepted(room: Room, count: int) -> list[tuple[str, str | None]]:
    """Wait for messages; return the text of each, and what it edits."""
    await room.until_accepted(count)
    return [(message.text, message.edits) for message in room.control.accepted]


async def test_a_location_has_its_coordinates_and_accuracy(room: Room) -> None:
    await room.alice.send_location(38.7223, -9.13934)
    await room.alice.send_location(0.0, 180.0, horizontal_accuracy=20.4)
    assert await accepted(room, 2) == [
        ("[The user sent a location: latitude 38.722300, longitude -9.139340.]", None),
        ("[The user sent a location: latitude 0.000000, longitude 180.000000, within 20 m.]", None),
    ]


async def test_a_place_has_its_name_and_address_on_one_line(room: Room) -> None:
    await room.alice.send_venue("Café\nA Brasileira", f"Rua {'a' * 300}", 38.71, -9.14)
    [(text, _)] = await accepted(room, 1)
    assert text.startswith("[The user sent a place: Café A Brasileira, Rua aaa")
    assert text.endswith("aaa; latitude 38.710000, longitude -9.140000.]") and len(text) < 350


async def test_a_contact_has_its_name_and_number(room: Room) -> None:
    await room.alice.send_contact("+351 210 000 000", "Ana", last_name="Sá", user_id=99)
    await room.alice.send_contact("112", "Help", vcard="BEGIN:VCARD")
    assert await accepted(room, 2) == [
        ("[The user sent a contact: Ana Sá, phone +351 210 000 000; Telegram user 99.]", None),
        ("[The user sent a contact: Help, phone 112.]", None),
    ]


async def test_a_live_location_is_a_message_at_its_start_and_an_edit_at_its_end(
    room: Room,
) -> None:
    await room.alice.share_live_location(1.0, 2.0, 900)
    live = room.alice.last_sent()
    for step in range(3):
        await room.alice.move(live, 1.0, 2.0 + step)
    last = await room.alice.stop_live_location(live, 1.0, 5.0)
    await room.alice.until_confirmed(last)
    (begin, none), (end, edits) = await accepted(room, 2)
    assert begin.startswith("[The user shares a live location.") and "longitude 2.0" in begin
    assert end == (
        "[The live location has ended. Its last position: latitude 1.000000, longitude 5.000000.]"
    )
    assert (none, edits) == (None, str(live.message_id))


async def test_a_stranger_who_sends_a_location_is_ignored(room: Room) -> None:
    stranger = room.telegram.user(666, TOKEN)
    update = await stranger.send_location(1.0, 2.0)
    async with asyncio.timeout(60):
        await stranger.until_confirmed(update)
    assert room.control.accepted == [] and not stranger.chat.bot_texts()
