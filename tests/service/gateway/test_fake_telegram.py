"""The fake Telegram, judged by the library that speaks to the real one."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter

from choir_common.testing.telegram import (
    DropAfter,
    DropBefore,
    FakeTelegram,
    Flood,
    run_fake_telegram,
)

TOKEN = "111:secret"


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with run_fake_telegram() as telegram:
        yield telegram


@pytest.fixture
async def bot(fake: FakeTelegram, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bot]:
    monkeypatch.setenv("PTB_TIMEDELTA", "1")  # else the library warns of its own future
    fake.bot(TOKEN)
    async with Bot(TOKEN, base_url=fake.base_url, base_file_url=fake.base_file_url) as made:
        yield made


async def test_an_update_stays_until_a_higher_offset_confirms_it(
    fake: FakeTelegram, bot: Bot
) -> None:
    user = fake.user(7, TOKEN)
    first = await user.says("hello")
    again = [await bot.get_updates(offset=0) for _ in range(2)]
    assert [[u.update_id for u in found] for found in again] == [[first], [first]]
    assert again[0][0].message is not None and again[0][0].message.text == "hello"
    assert await bot.get_updates(offset=first + 1) == ()
    fake.repeat(first, TOKEN)
    assert [u.update_id for u in await bot.get_updates(offset=first + 1)] == [first]
    assert await bot.get_updates(offset=first + 1) == ()


async def test_a_long_poll_wakes_when_somebody_speaks(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(bot.get_updates(timeout=20))
        await asyncio.sleep(0.1)
        await user.says("wake")
        assert len(await asyncio.wait_for(poll, 60)) == 1


async def test_a_second_poll_ends_the_first(fake: FakeTelegram, bot: Bot) -> None:
    async def poll() -> object:
        try:
            return await bot.get_updates(timeout=20)
        except Conflict as error:
            return error

    async with Bot(TOKEN, base_url=fake.base_url) as other:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(poll())
            await asyncio.sleep(0.1)
            group.create_task(other.get_updates(timeout=1))
            assert isinstance(await asyncio.wait_for(first, 60), Conflict)


async def test_refusals_are_those_of_telegram(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    with pytest.raises(BadRequest, match="too long"):
        await bot.send_message(7, "x" * 4097)
    with pytest.raises(BadRequest, match="too long"):
        await bot.send_message(7, "😀" * 2049)
    with pytest.raises(BadRequest, match="Chat not found"):
        await bot.send_message(8, "x")
    with pytest.raises(BadRequest, match="Can't parse entities"):
        await bot.send_message(7, "a <b>bold", parse_mode="HTML")
    with pytest.raises(BadRequest, match="reserved"):
        await bot.send_message(7, "an end.", parse_mode="MarkdownV2")
    user.blocks()
    with pytest.raises(Forbidden):
        await bot.send_message(7, "x")
    stranger = Bot("9:unknown", base_url=fake.base_url)
    with pytest.raises(InvalidToken):
        await stranger.initialize()
    await stranger.shutdown()


async def test_markup_is_read_as_telegram_reads_it(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    await bot.send_message(7, "a <b>bold</b> &amp; <code>x</code>", parse_mode="HTML")
    assert (await user.hears()).text == "a bold & x"
    await bot.send_message(7, r"*b* _i_ `a.b` [t](http://x.y) end\.", parse_mode="MarkdownV2")
    assert (await user.hears()).text == "b i a.b t end."


async def test_scripted_failures_come_in_order_and_tell_effect_from_answer(
    fake: FakeTelegram, bot: Bot
) -> None:
    user = fake.user(7, TOKEN)
    fake.script("sendMessage", Flood(3), DropBefore(), DropAfter(), token=TOKEN)
    with pytest.raises(RetryAfter):
        await bot.send_message(7, "one")
    with pytest.raises(NetworkError):
        await bot.send_message(7, "two")
    with pytest.raises(NetworkError):
        await bot.send_message(7, "three")
    await bot.send_message(7, "four")
    assert [m.text for m in await user.hears_all(2)] == ["three", "four"]


async def test_buttons_edits_and_presses_go_round(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    markup = InlineKeyboardMarkup([[InlineKeyboardButton("Approve", callback_data="a:1")]])
    await bot.send_message(7, "Do it?", reply_markup=markup)
    question = await user.hears()
    await user.presses(question, "Approve")
    (update,) = await bot.get_updates()
    assert update.callback_query is not None and update.callback_query.data == "a:1"
    await bot.answer_callback_query(update.callback_query.id, "done")
    await bot.edit_message_text("Approved", 7, question.message_id)
    assert (await user.hears()).text == "Approved"
    assert fake.bot(TOKEN).answers[0].text == "done"


async def test_files_travel_both_ways(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    content = bytes(range(256)) * 10
    await bot.send_document(7, content, filename="a.bin", caption="here")
    heard = await user.hears()
    assert (heard.file_kind, heard.file_name, heard.file_bytes) == ("document", "a.bin", content)
    await user.sends_file("photo", "p.jpg", content, "look")
    (update,) = await bot.get_updates()
    assert update.message is not None and update.message.caption == "look"
    file = await bot.get_file(update.message.photo[-1].file_id)
    assert bytes(await file.download_as_bytearray()) == content


async def test_bots_are_kept_apart_by_token(fake: FakeTelegram, bot: Bot) -> None:
    await fake.user(7, "222:other").says("not for you")
    assert await bot.get_updates() == ()
    assert (await bot.get_webhook_info()).pending_update_count == 0
