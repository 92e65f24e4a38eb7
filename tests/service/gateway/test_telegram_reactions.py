"""A bot acknowledges each message that control has stored with a reaction, if it is configured to."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from choir_testing.telegram import ErrorResponse, SentMessage, TooManyRequests
from tests.service.gateway.telegram_room import TOKEN, Room, opened_room


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room(acknowledgement="👀") as opened:
        yield opened


async def until_acknowledged(room: Room, message: SentMessage) -> None:
    await room.alice.wait_until(lambda _: message.reactions == ("👀",))


def reaction_calls(room: Room) -> int:
    return sum(call.method == "setMessageReaction" for call in room.telegram.bot(TOKEN).calls)


async def test_a_stored_message_gets_the_reaction(room: Room) -> None:
    await room.alice.send("hello")
    await until_acknowledged(room, room.alice.last_sent())
    assert [message.text for message in room.control.accepted] == ["hello"]


async def test_an_edit_and_a_repeated_update_get_no_second_one(room: Room) -> None:
    update = await room.alice.send("hello")
    first = room.alice.last_sent()
    await room.alice.edit(first, "hello again")
    room.telegram.repeat(update, TOKEN)
    await room.alice.send("the last one")
    await until_acknowledged(room, room.alice.last_sent())
    assert first.reactions == ("👀",) and reaction_calls(room) == 2


async def test_a_limit_is_waited_for_and_a_refusal_drops_only_its_own(room: Room) -> None:
    room.telegram.script(
        "setMessageReaction",
        TooManyRequests(1),
        ErrorResponse(400, "Bad Request: message to react not found"),
        token=TOKEN,
    )
    await room.alice.send("one")
    first = room.alice.last_sent()
    await room.alice.send("two")
    await until_acknowledged(room, room.alice.last_sent())
    assert first.reactions == () and len(room.control.accepted) == 2


async def test_a_server_without_reactions_is_not_asked_again(room: Room) -> None:
    room.telegram.script(
        "setMessageReaction", ErrorResponse(404, "Not Found: method not found"), token=TOKEN
    )
    await room.alice.send("one")
    async with asyncio.timeout(60):
        while reaction_calls(room) < 1:
            await asyncio.sleep(0.02)
    await room.alice.send("two")
    await room.until_accepted(2)
    await room.deliver(room.message("an answer"))
    assert (await room.alice.receive()).text == "an answer" and reaction_calls(room) == 1


async def test_a_bot_that_is_not_configured_to_sets_none() -> None:
    async with opened_room() as room:
        await room.alice.send("hello")
        await room.until_accepted(1)
        await room.deliver(room.message("an answer"))
        await room.alice.receive()
        assert reaction_calls(room) == 0
