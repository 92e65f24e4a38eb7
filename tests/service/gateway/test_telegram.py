"""Telegram through the gateway as a process: the fake Bot API on one side, control on the other."""

import asyncio

import pytest

from choir_common.errors import ChoirError, OutcomeUnknown, Unavailable
from choir_common.wire.messages import ChannelTable, DeliveryReceipt, DmBinding, OutboundMessage
from choir_testing.telegram import (
    DisconnectAfter,
    DisconnectBefore,
    ErrorResponse,
    FakeTelegram,
    NoFault,
    TooManyRequests,
)
from tests.service.gateway.conftest import MAIN_TOKEN, WORK_TOKEN
from tests.service.gateway.control_stand_in import ControlStandIn, channel_table
from tests.support.service_process import ServiceProcess

APPLIED = '"channels configured"'
"""Written by the gateway whenever it has taken over a configuration."""


async def deliver_until_done(control: ControlStandIn, message: OutboundMessage) -> DeliveryReceipt:
    """Ask again as the outbox does: marked as possibly repeated once an outcome is unknown."""
    while True:
        try:
            return await control.deliver(message)
        except OutcomeUnknown:
            message = message.model_copy(update={"maybe_repeated": True})
        except Unavailable as error:
            await asyncio.sleep(min(error.retry_after_s or 0.05, 2))


async def until_arrived(control: ControlStandIn, count: int) -> None:
    async with asyncio.timeout(60):
        while len(control.inbox) < count:
            await asyncio.sleep(0.02)


async def until_kept(control: ControlStandIn, parcels: int) -> None:
    async with asyncio.timeout(60):
        while not control.progress or control.progress[-1].parcels < parcels:
            await asyncio.sleep(0.02)


async def test_a_message_reaches_control_and_is_confirmed_only_then(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    control.refusals = [Unavailable(), Unavailable(), ChoirError()]
    update = await alice.send("hello")
    await until_arrived(control, 1)
    (message,) = control.inbox.values()
    assert (message.gateway, message.dm, message.text) == ("bot-main", "alice", "hello")
    await alice.until_confirmed(update)


async def test_messages_keep_their_order_over_failures(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    telegram.script(
        "getUpdates", ErrorResponse(502, "Bad Gateway"), DisconnectAfter(), token=MAIN_TOKEN
    )
    for number in range(20):
        if number % 5 == 0:
            control.refusals.append(Unavailable())
        await alice.send(f"{number}")
    await until_arrived(control, 20)
    assert [m.text for m in control.inbox.values()] == [str(number) for number in range(20)]


async def test_a_stranger_is_ignored_in_silence(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    stranger, bob = telegram.user(666, MAIN_TOKEN), telegram.user(8, MAIN_TOKEN)
    update = await stranger.send("let me in")
    await telegram.user(8, WORK_TOKEN).send("bob is a stranger to the other bot")
    await bob.send("hi")
    await until_arrived(control, 1)
    await stranger.until_confirmed(update)
    assert [m.dm for m in control.inbox.values()] == ["bob"]
    assert await stranger.receives_nothing(0.3)


async def test_the_same_person_on_two_bots_is_two_dms(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    await telegram.user(7, MAIN_TOKEN).send("private")
    await telegram.user(7, WORK_TOKEN).send("work")
    await until_arrived(control, 2)
    found = {(m.gateway, m.dm, m.text) for m in control.inbox.values()}
    assert found == {("bot-main", "alice", "private"), ("bot-work", "alice-work", "work")}
    await control.say("alice-work", "to the office")
    assert (await telegram.user(7, WORK_TOKEN).receive()).text == "to the office"
    assert await telegram.user(7, MAIN_TOKEN).receives_nothing(0.2)


async def test_an_update_delivered_again_keeps_its_identity(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    update = await alice.send("once")
    await until_arrived(control, 1)
    telegram.repeat(update, MAIN_TOKEN)
    await alice.send("after")
    await until_arrived(control, 2)
    assert [m.text for m in control.inbox.values()] == ["once", "after"]


async def test_what_a_killed_gateway_had_not_confirmed_arrives_after_its_return(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    await alice.send("one")
    await until_arrived(control, 1)
    await gateway.kill()
    for text in ("two", "three"):
        await alice.send(text)
    await gateway.start()
    await until_arrived(control, 3)
    assert [m.text for m in control.inbox.values()] == ["one", "two", "three"]


async def test_a_long_answer_arrives_whole_and_in_order_under_floods_and_cut_lines(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    words = " ".join(f"word{number}" for number in range(2_500))
    faults = (
        TooManyRequests(1),
        DisconnectBefore(),
        ErrorResponse(500, "Internal"),
        TooManyRequests(1),
    )
    telegram.script("sendMessage", *faults, token=MAIN_TOKEN)
    receipt = await deliver_until_done(control, control.keep("alice", words))
    assert receipt.status == "delivered"
    said = [text.removeprefix("(possibly repeated) ") for text in alice.chat.bot_texts()]
    assert "".join(said).split() == words.split()
    assert all(len(text) <= 4096 for text in alice.chat.bot_texts())


async def test_only_the_part_in_doubt_is_repeated_and_it_says_so(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    telegram.script("sendMessage", NoFault(), DisconnectAfter(), token=MAIN_TOKEN)
    text = "\n\n".join(letter * 3000 for letter in "abc")
    receipt = await deliver_until_done(control, control.keep("alice", text))
    assert receipt.status == "delivered"
    heads = [said[:24] for said in alice.chat.bot_texts()]
    assert heads == ["a" * 24, "b" * 24, "(possibly repeated) bbbb", "c" * 24]


async def test_a_long_answer_goes_on_after_a_kill_behind_what_had_arrived(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    message = control.keep("alice", "\n\n".join(letter * 3000 for letter in "abc"))
    telegram.script("sendMessage", NoFault(), NoFault(), TooManyRequests(40), token=MAIN_TOKEN)
    cut_off = asyncio.create_task(control.deliver(message))
    await until_kept(control, 2)
    await gateway.kill()
    await gateway.start()
    # at once, not when the time limit of the delivery has passed
    await asyncio.wait([cut_off])
    assert isinstance(cut_off.exception(), OutcomeUnknown)
    far = {"maybe_repeated": True, "partly_sent": control.progress[-1]}
    receipt = await deliver_until_done(control, message.model_copy(update=far))
    heads = [said[:24] for said in alice.chat.bot_texts()]
    assert heads == ["a" * 24, "b" * 24, "(possibly repeated) cccc"]
    assert receipt.message_id == str(max(alice.chat.messages))


async def test_text_is_counted_as_telegram_counts_it(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    assert (await control.say("alice", "😀" * 5_000)).status == "delivered"
    assert "".join(alice.chat.bot_texts()) == "😀" * 5_000


async def test_an_answer_is_formatted_and_what_choir_itself_says_is_not(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    text = "a <b>tag</b> & *stars* `code`"
    alice = telegram.user(7, MAIN_TOKEN)
    await control.say("alice", text)
    heard = await alice.receive()
    assert heard.text == "a <b>tag</b> & stars code"
    assert heard.markup == "a &lt;b&gt;tag&lt;/b&gt; &amp; <i>stars</i> <code>code</code>"
    await control.say("alice", text, "notice")
    assert (await alice.receive()).text == text
    await control.say("alice", text, "message")  # an agent's, though it ends nothing
    assert (await alice.receive()).markup == heard.markup


async def test_an_answer_whose_markup_telegram_refuses_is_sent_without_it(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    refusal = ErrorResponse(400, "Bad Request: can't parse entities: Unsupported start tag")
    telegram.script("sendMessage", refusal, token=MAIN_TOKEN)
    assert (await control.say("alice", "so *it* is")).status == "delivered"
    heard = await alice.receive()
    assert (heard.text, heard.parse_mode) == ("so it is", None)


async def test_who_cannot_be_reached_is_said_to_be_undeliverable(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    telegram.user(7, MAIN_TOKEN).block_bot()
    receipt = await control.say("alice", "hello?")
    assert receipt.status == "undeliverable" and "blocked" in receipt.detail
    assert (await control.say("bob", "hello?")).status == "undeliverable"


async def test_a_rate_limit_longer_than_the_deadline_is_handed_back_with_its_time(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    telegram.script("sendMessage", TooManyRequests(600), token=MAIN_TOKEN)
    with pytest.raises(Unavailable) as caught:
        await control.say("alice", "later")
    assert caught.value.retry_after_s == 600
    assert (await control.deliver(control.outbox[-1])).status == "delivered"
    assert alice.chat.bot_texts() == ["later"]


async def test_a_note_of_control_is_passed_to_the_user_once(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    control.note = "The agent is stopped; your message waits."
    update = await alice.send("hello")
    assert (await alice.receive()).text == control.note
    telegram.repeat(update, MAIN_TOKEN)
    assert await alice.receives_nothing(0.5)


async def test_a_note_is_said_whole_and_in_the_end_whatever_telegram_does(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    control.note = "\n".join(f"line {number}" for number in range(900))
    faults = (TooManyRequests(2), ErrorResponse(502, "Bad Gateway"), DisconnectAfter())
    telegram.script("sendMessage", *faults, token=MAIN_TOKEN)
    await alice.send("/events 50")
    lines = control.note.splitlines()
    await alice.wait_until(lambda chat: any(lines[-1] in said for said in chat.bot_texts()), 60)
    first, again, *others = [t.removeprefix("(possibly repeated) ") for t in alice.chat.bot_texts()]
    assert again == first
    assert "\n".join([first, *others]).split() == control.note.split()


async def test_many_notes_of_a_chat_are_all_said_in_order(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    for number in range(9):
        control.note = f"note {number}"
        await alice.send("/status")
        await until_arrived(control, number + 1)
    await alice.wait_until(lambda chat: len(chat.bot_texts()) == 9, 60)
    assert alice.chat.bot_texts() == [f"note {number}" for number in range(9)]


async def test_a_report_is_delivered_as_an_answer_is(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice = telegram.user(7, MAIN_TOKEN)
    receipt = await control.say("alice", "the notes are read", "report")
    assert receipt.status == "delivered"
    assert (await alice.receive()).text == "the notes are read"


async def change(gateway: ServiceProcess, control: ControlStandIn, table: ChannelTable) -> None:
    """Change the configuration and wait until the gateway says that it uses it."""
    applied = gateway.log.count(APPLIED)
    await control.change(table)
    async with asyncio.timeout(60):
        while gateway.log.count(APPLIED) == applied:
            await asyncio.sleep(0.02)


async def test_a_dm_that_is_added_or_removed_counts_at_once(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    carol = telegram.user(9, MAIN_TOKEN)
    old = control.table
    dm = DmBinding(name="carol", gateway="bot-main", user_id="9", admin=False)
    await change(gateway, control, old.model_copy(update={"dms": (*old.dms, dm)}))
    await carol.send("I am new")
    await until_arrived(control, 1)
    await change(gateway, control, old)
    await carol.until_confirmed(await carol.send("I am gone"))
    assert len(control.inbox) == 1


async def test_a_bot_that_is_removed_stops_and_one_that_returns_goes_on(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    alice, full = telegram.user(7, MAIN_TOKEN), control.table
    await alice.send("one")
    await until_arrived(control, 1)
    await change(gateway, control, channel_table())
    await alice.send("two")
    await asyncio.sleep(0.5)
    assert len(control.inbox) == 1
    await control.change(full)
    await until_arrived(control, 2)


async def test_a_left_over_webhook_does_not_keep_the_bot_deaf(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    telegram.bot(MAIN_TOKEN).webhook.url = "https://old.example/hook"
    alice = telegram.user(7, MAIN_TOKEN)
    await alice.send("one")  # wakes the poll under way; the next one finds the webhook
    await alice.send("two")
    await until_arrived(control, 2)


async def test_a_revoked_token_is_told_and_harms_no_other_bot(
    gateway: ServiceProcess, control: ControlStandIn, telegram: FakeTelegram
) -> None:
    telegram.script("getUpdates", ErrorResponse(401, "Unauthorized"), token=WORK_TOKEN)
    await telegram.user(7, WORK_TOKEN).send("wake")
    await telegram.user(7, MAIN_TOKEN).send("hello")
    await until_arrived(control, 2)
    assert await gateway.ready()
