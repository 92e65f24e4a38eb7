"""A conversation survives cuts: nothing that is said to the user is lost, nothing is given out twice."""

import asyncio

import pytest

from choir_common.errors import NotFound
from choirctl.api.control import connect
from choirctl.chat.dm_client import open_dm
from tests.service.choirctl.console_stand_in import Console, served

WITHIN_S = 200


async def test_an_answer_is_heard_by_whoever_asked() -> None:
    async with (
        asyncio.timeout(WITHIN_S),
        served(Console()) as place,
        connect(place) as api,
        open_dm(api, "console") as conversation,
    ):
        accepted = await conversation.send_message("hello")
        message = await conversation.receive()
        assert (message.text, message.answers) == ("you said hello", accepted.inbox_id)


async def test_a_stream_that_is_cut_after_every_message_loses_and_doubles_nothing() -> None:
    console = Console(cut_after=2)
    async with (
        asyncio.timeout(WITHIN_S),
        served(console) as place,
        connect(place) as api,
        open_dm(api, "console") as conversation,
    ):
        for number in range(6):
            await conversation.send_message(str(number))
        heard = [(await conversation.receive()).text for _ in range(6)]
        assert heard == [f"you said {number}" for number in range(6)]
        assert len(console.streams) > 1
        assert console.streams[0] == "0"


async def test_a_message_whose_acknowledgement_was_lost_is_said_again_under_its_key() -> None:
    console = Console(lose_acknowledgements=2)
    async with (
        asyncio.timeout(WITHIN_S),
        served(console) as place,
        connect(place) as api,
        open_dm(api, "console") as conversation,
    ):
        accepted = await conversation.send_message("hello")
        assert accepted.duplicate
        assert console.posts == 3
        assert [message.text for message in console.said] == ["you said hello"]


async def test_what_comes_before_the_first_cut_of_a_quiet_stream_is_not_lost() -> None:
    console = Console(cut_after=0)
    await console.say("long ago")
    async with (
        asyncio.timeout(WITHIN_S),
        served(console) as place,
        connect(place) as api,
        open_dm(api, "console") as conversation,
    ):
        # every stream ends at once, before it gave out an id to resume from
        await console.say("while you were away")
        console.cut_after = 1000
        assert (await conversation.receive()).text == "while you were away"


async def test_an_unknown_dm_is_not_found() -> None:
    async with asyncio.timeout(WITHIN_S), served(Console()) as place, connect(place) as api:
        with pytest.raises(ExceptionGroup) as raised:
            async with open_dm(api, "nobody"):
                raise AssertionError("the stream must not open")
        assert raised.group_contains(NotFound, match="There is no DM nobody")
