"""Files over a Telegram bot, both ways, with captions, and what Telegram does not take."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from choir_common.errors import NotFound, TooLarge, Unavailable
from choir_common.wire.attachments import AttachmentKind
from choir_testing.telegram import (
    Delay,
    DisconnectAfter,
    ErrorResponse,
    NoFault,
    TooManyRequests,
)
from tests.service.gateway.telegram_room import TOKEN, Room, opened_room

CONTENT = bytes(range(256)) * 300


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    async with opened_room() as opened:
        yield opened


async def read(room: Room, ref: str) -> bytes:
    async with room.channel.open_file(ref) as pieces:
        return b"".join([piece async for piece in pieces])


async def until_called(room: Room, method: str, times: int) -> None:
    """Wait until a method of the Bot API was called so often."""
    async with asyncio.timeout(60):
        while sum(call.method == method for call in room.telegram.bot(TOKEN).calls) < times:
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("sent", "kind", "name"),
    [
        ("document", "document", "report.pdf"),
        ("photo", "photo", "photo.jpg"),
        ("voice", "voice", "voice.ogg"),
        ("audio", "audio", "song.mp3"),
        ("video", "video", "film.mp4"),
        ("video_note", "video", "video.mp4"),
    ],
)
async def test_a_users_file_comes_with_its_kind_its_caption_and_its_bytes(
    room: Room, sent: str, kind: AttachmentKind, name: str
) -> None:
    given = name if sent in {"document", "audio", "video"} else "ignored"
    await room.alice.send_file(sent, given, CONTENT, "look")
    await room.until_accepted(1)
    (message,) = room.control.accepted
    (attachment,) = message.attachments
    assert (message.text, attachment.kind, attachment.name) == ("look", kind, name)
    assert attachment.size == len(CONTENT)
    assert await read(room, attachment.ref) == CONTENT


async def test_a_file_without_a_caption_is_a_message_of_its_own(room: Room) -> None:
    await room.alice.send_file("document", "a.bin", CONTENT)
    await room.until_accepted(1)
    assert room.control.accepted[0].text == ""


async def test_a_file_that_cannot_be_had_says_why(room: Room) -> None:
    bot = room.telegram.bot(TOKEN)
    with pytest.raises(TooLarge):
        await read(room, bot.store_file("big", b"x" * (20 * 1024 * 1024 + 1)))
    ref = bot.store_file("small", CONTENT)
    room.telegram.disconnected = True
    with pytest.raises(Unavailable) as caught:
        await read(room, ref)
    assert TOKEN not in caught.value.message
    room.telegram.disconnected = False
    bot.forget_files()
    with pytest.raises(NotFound):
        await read(room, ref)


@pytest.mark.parametrize("kind", ["document", "photo", "voice", "audio", "video"])
async def test_an_agents_file_arrives_as_what_it_is_with_the_words_as_its_caption(
    room: Room, kind: AttachmentKind
) -> None:
    receipt = await room.deliver(room.message("the *file*", (kind, "übung 1.bin", CONTENT)))
    heard = await room.alice.receive()
    assert (heard.file_kind, heard.text) == (kind, "the file")
    assert heard.file_bytes == CONTENT
    assert receipt.message_id == str(heard.message_id)


async def test_several_files_follow_the_words_in_order(room: Room) -> None:
    files: tuple[tuple[AttachmentKind, str, bytes], ...] = (
        ("document", "a", b"a"),
        ("photo", "b", b"b"),
    )
    receipt = await room.deliver(room.message("two files", *files))
    words, first, second = await room.alice.receive_many(3)
    assert (words.text, first.file_bytes, second.file_bytes) == ("two files", b"a", b"b")
    assert receipt.message_id == str(words.message_id)


async def test_a_long_text_does_not_become_a_caption(room: Room) -> None:
    text = "word " * 300
    await room.deliver(room.message(text, ("document", "a", b"a")))
    words, file = await room.alice.receive_many(2)
    assert words.text.split() == text.split() and file.text == ""


async def test_what_is_no_photo_to_telegram_is_sent_as_a_document(room: Room) -> None:
    refusal = ErrorResponse(400, "Bad Request: PHOTO_INVALID_DIMENSIONS")
    room.telegram.script("sendPhoto", refusal, token=TOKEN)
    await room.deliver(room.message("look", ("photo", "wide.png", CONTENT)))
    heard = await room.alice.receive()
    assert (heard.file_kind, heard.file_bytes, heard.text) == ("document", CONTENT, "look")


async def test_a_file_that_cannot_be_sent_is_said_and_the_rest_goes_on(room: Room) -> None:
    message = room.message("three", ("document", "gone", b"x"), ("document", "here", b"y"))
    del room.files.files[message.outbox_id, "0"]
    assert (await room.deliver(message)).status == "delivered"
    heard = await room.alice.receive_many(3)
    assert "gone could not be sent" in heard[1].text
    assert heard[2].file_bytes == b"y"


async def test_a_file_waits_while_control_is_away(room: Room) -> None:
    message = room.message("one", ("document", "a", b"a"))
    room.files.files[message.outbox_id, "0"] = Unavailable()
    with pytest.raises(Unavailable):
        await room.deliver(message)
    room.files.files[message.outbox_id, "0"] = b"a"
    assert (await room.deliver(message)).status == "delivered"
    assert (await room.alice.receive()).file_bytes == b"a"


async def test_a_rate_limit_sends_the_whole_file_again(room: Room) -> None:
    room.telegram.script("sendDocument", TooManyRequests(1), token=TOKEN)
    await room.deliver(room.message("", ("document", "a", CONTENT)))
    assert (await room.alice.receive()).file_bytes == CONTENT


async def test_only_the_file_in_doubt_is_repeated_and_says_so(room: Room) -> None:
    room.telegram.script("sendDocument", NoFault(), DisconnectAfter(), token=TOKEN)
    message = room.message("two", ("document", "a", b"a"), ("document", "b", b"b"))
    with pytest.raises(Unavailable):
        await room.deliver(message)
    again = message.model_copy(update={"maybe_repeated": True})
    assert (await room.deliver(again)).status == "delivered"
    heard = await room.alice.receive_many(4)
    assert [m.file_bytes for m in heard] == [None, b"a", b"b", b"b"]
    assert heard[3].text == "(possibly repeated) "


async def test_a_file_that_nobody_knows_to_have_arrived_is_given_up_and_that_is_said(
    room: Room,
) -> None:
    room.telegram.script("sendDocument", *[DisconnectAfter()] * 4, token=TOKEN)
    message = room.message("see", ("document", "large.bin", CONTENT))
    for _ in range(3):
        with pytest.raises(Unavailable):
            await room.deliver(message)
        message = message.model_copy(update={"maybe_repeated": True})
    assert (await room.deliver(message)).status == "delivered"
    *copies, words = await room.alice.receive_many(4)
    assert [copy.file_bytes for copy in copies] == [CONTENT] * 3
    assert words.file_bytes is None and words.text.endswith("see")
    assert words.text.startswith("The file large.bin could not be sent: the connection failed")
    assert await room.alice.receives_nothing()


async def test_a_file_that_takes_longer_than_control_waits_is_given_up_as_well(room: Room) -> None:
    room.telegram.script("sendDocument", *[Delay(60)] * 3, token=TOKEN)
    message = room.message("", ("document", "large.bin", CONTENT))
    for tries in range(1, 4):
        attempt = asyncio.create_task(room.deliver(message))
        await until_called(room, "sendDocument", tries)
        attempt.cancel()
        await asyncio.wait([attempt])
    assert (await room.deliver(message)).status == "delivered"
    heard = await room.alice.receive()
    assert "large.bin could not be sent" in heard.text


async def test_doubts_about_one_file_are_none_about_the_next(room: Room) -> None:
    cuts = (
        DisconnectAfter(),
        DisconnectAfter(),
        NoFault(),
        DisconnectAfter(),
        DisconnectAfter(),
        NoFault(),
    )
    room.telegram.script("sendDocument", *cuts, token=TOKEN)
    message = room.message("", ("document", "a", b"a"), ("document", "b", b"b"))
    for _ in range(4):
        with pytest.raises(Unavailable):
            await room.deliver(message)
    assert (await room.deliver(message)).status == "delivered"
    heard = await room.alice.receive_many(6)
    assert [one.file_bytes for one in heard] == [b"a"] * 3 + [b"b"] * 3


async def test_what_is_whole_is_not_sent_again(room: Room) -> None:
    message = room.message("once")
    first = await room.deliver(message)
    assert await room.deliver(message.model_copy(update={"maybe_repeated": True})) == first
    assert room.alice.chat.bot_texts() == ["once"]
