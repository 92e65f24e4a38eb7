"""The fake Telegram, judged by the library that speaks to the real one."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from telegram import Bot, BotCommand, InlineKeyboardButton, InlineKeyboardMarkup, ReplyParameters
from telegram.error import BadRequest, Conflict, Forbidden, InvalidToken, NetworkError, RetryAfter

from choir_common.http.listen import bind_tcp, serve
from choir_testing.telegram import (
    DisconnectAfter,
    DisconnectBefore,
    FakeTelegram,
    TooManyRequests,
    run_fake_telegram,
)
from choir_testing.telegram.webhook import SECRET_HEADER

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
    first = await user.send("hello")
    again = [await bot.get_updates(offset=0) for _ in range(2)]
    assert [[u.update_id for u in found] for found in again] == [[first], [first]]
    assert again[0][0].message is not None and again[0][0].message.text == "hello"
    assert await bot.get_updates(offset=first + 1) == ()
    fake.repeat(first, TOKEN)
    assert [u.update_id for u in await bot.get_updates(offset=first + 1)] == [first]
    assert await bot.get_updates(offset=first + 1) == ()


async def until_polled(fake: FakeTelegram) -> None:
    """Wait until a poll of the bot has come."""
    async with asyncio.timeout(60):
        while not fake.bot(TOKEN).mailbox.poll_count:
            await asyncio.sleep(0.01)


async def test_a_long_poll_wakes_when_somebody_speaks(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    async with asyncio.TaskGroup() as group:
        poll = group.create_task(bot.get_updates(timeout=20))
        await until_polled(fake)
        await user.send("wake")
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
            await until_polled(fake)
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
    user.block_bot()
    with pytest.raises(Forbidden):
        await bot.send_message(7, "x")
    stranger = Bot("9:unknown", base_url=fake.base_url)
    with pytest.raises(InvalidToken):
        await stranger.initialize()
    await stranger.shutdown()


async def test_markup_is_read_as_telegram_reads_it(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    await bot.send_message(7, "a <b>bold</b> &amp; <code>x</code>", parse_mode="HTML")
    assert (await user.receive()).text == "a bold & x"
    await bot.send_message(7, r"*b* _i_ `a.b` [t](http://x.y) end\.", parse_mode="MarkdownV2")
    assert (await user.receive()).text == "b i a.b t end."


async def test_scripted_failures_come_in_order_and_tell_effect_from_answer(
    fake: FakeTelegram, bot: Bot
) -> None:
    user = fake.user(7, TOKEN)
    fake.script(
        "sendMessage", TooManyRequests(3), DisconnectBefore(), DisconnectAfter(), token=TOKEN
    )
    with pytest.raises(RetryAfter):
        await bot.send_message(7, "one")
    with pytest.raises(NetworkError):
        await bot.send_message(7, "two")
    with pytest.raises(NetworkError):
        await bot.send_message(7, "three")
    await bot.send_message(7, "four")
    assert [m.text for m in await user.receive_many(2)] == ["three", "four"]


async def test_buttons_edits_and_presses_go_round(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    markup = InlineKeyboardMarkup([[InlineKeyboardButton("Approve", callback_data="a:1")]])
    await bot.send_message(7, "Do it?", reply_markup=markup)
    question = await user.receive()
    await user.press(question, "Approve")
    (update,) = await bot.get_updates()
    assert update.callback_query is not None and update.callback_query.data == "a:1"
    await bot.answer_callback_query(update.callback_query.id, "done")
    await bot.edit_message_text("Approved", 7, question.message_id)
    assert (await user.receive()).text == "Approved"
    assert fake.bot(TOKEN).answers[0].text == "done"


async def test_files_travel_both_ways(fake: FakeTelegram, bot: Bot) -> None:
    user = fake.user(7, TOKEN)
    content = bytes(range(256)) * 10
    await bot.send_document(7, content, filename="a.bin", caption="here")
    heard = await user.receive()
    assert (heard.file_kind, heard.file_name, heard.file_bytes) == ("document", "a.bin", content)
    await user.send_file("photo", "p.jpg", content, "look")
    (update,) = await bot.get_updates()
    assert update.message is not None and update.message.caption == "look"
    file = await bot.get_file(update.message.photo[-1].file_id)
    assert bytes(await file.download_as_bytearray()) == content


async def test_a_webhook_is_brought_updates_in_order_until_it_takes_them(
    fake: FakeTelegram, bot: Bot
) -> None:
    seen: list[tuple[str | None, int]] = []

    async def take(request: Request) -> Response:
        body = await request.json()
        seen.append((request.headers.get(SECRET_HEADER), body["update_id"]))
        return Response(status_code=503 if len(seen) == 1 else 200)

    app = Starlette(routes=[Route("/hook", take, methods=["POST"])])
    listener, closed = bind_tcp("127.0.0.1", 0, "test"), asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(app, [listener], closed))
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/hook"
        await bot.set_webhook(address, secret_token="s3cret")
        with pytest.raises(Conflict):
            await bot.get_updates()
        user = fake.user(7, TOKEN)
        first, second = await user.send("one"), await user.send("two")
        await user.until_confirmed(second, timeout=60)
        closed.set()
    assert seen == [("s3cret", first), ("s3cret", first), ("s3cret", second)]
    await bot.delete_webhook()
    assert await bot.get_updates() == ()


async def test_what_telegram_refuses_of_menus_queries_and_messages_is_refused(
    fake: FakeTelegram, bot: Bot
) -> None:
    user = fake.user(7, TOKEN)
    with pytest.raises(BadRequest, match="(?i)BOT_COMMAND_INVALID"):
        await bot.set_my_commands([BotCommand("update-all", "x")])
    with pytest.raises(BadRequest, match="(?i)query is too old"):
        await bot.answer_callback_query("never", "x")
    with pytest.raises(BadRequest, match="(?i)replied not found"):
        await bot.send_message(7, "x", reply_parameters=ReplyParameters(99))
    alone = ReplyParameters(99, allow_sending_without_reply=True)
    assert (await bot.send_message(7, "x", reply_parameters=alone)).reply_to_message is None
    said = await bot.send_message(7, "same")
    with pytest.raises(BadRequest, match="(?i)not modified"):
        await bot.edit_message_text("same", 7, said.message_id)
    assert await bot.delete_message(7, said.message_id)
    assert user.chat.deleted == [said.message_id]
    with pytest.raises(BadRequest, match="(?i)delete not found"):
        await bot.delete_message(7, said.message_id)
    with pytest.raises(BadRequest, match="(?i)too big"):
        await bot.get_file(fake.bot(TOKEN).store_file("big", b"x" * (20 * 1024 * 1024 + 1)))


async def test_who_speaks_too_fast_is_told_how_long_to_wait(fake: FakeTelegram, bot: Bot) -> None:
    traffic, _ = fake.limit_rate(TOKEN), fake.user(7, TOKEN)
    with pytest.raises(RetryAfter) as caught:
        for number in range(traffic.per_chat + 1):
            await bot.send_message(7, f"{number}")
    assert traffic.refused == 1 and caught.value.retry_after


async def test_bots_are_kept_apart_by_token(fake: FakeTelegram, bot: Bot) -> None:
    await fake.user(7, "222:other").send("not for you")
    assert await bot.get_updates() == ()
    assert (await bot.get_webhook_info()).pending_update_count == 0
