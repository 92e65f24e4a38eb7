"""Every channel type does what users and control rely on; a new type needs a harness and passes this."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from choir_common.errors import OutcomeUnknown, Unavailable
from choir_common.wire.activity import Card, DmActivity, Draft, Idle, Typing
from choir_common.wire.attachments import Button
from choir_common.wire.channel_types import CHANNEL_TYPES
from choir_common.wire.messages import EditTarget, OutboundMessage
from tests.contract.channels.console_harness import ConsoleHarness
from tests.contract.channels.discord_harness import DiscordHarness
from tests.contract.channels.email_harness import EmailHarness
from tests.contract.channels.harness import ChannelHarness, Failure, until
from tests.contract.channels.matrix_harness import MatrixHarness
from tests.contract.channels.signal_harness import SignalHarness
from tests.contract.channels.slack_harness import SlackHarness
from tests.contract.channels.telegram_harness import TelegramHarness
from tests.contract.channels.webhook_harness import WebhookHarness
from tests.contract.channels.whatsapp_harness import WhatsAppHarness

HARNESSES: dict[str, type[ChannelHarness]] = {
    "telegram": TelegramHarness,
    "discord": DiscordHarness,
    "slack": SlackHarness,
    "matrix": MatrixHarness,
    "email": EmailHarness,
    "whatsapp": WhatsAppHarness,
    "signal": SignalHarness,
    "console": ConsoleHarness,
    "webhook": WebhookHarness,
}
TEMPORARY_FAILURES = [
    (name, failure)
    for name, it in HARNESSES.items()
    for failure in sorted(it.failures - {"blocked"})
]
WITH_BLOCKS = [name for name, it in HARNESSES.items() if "blocked" in it.failures]
EDITING = [name for name, it in HARNESSES.items() if it.can_edit]
NOT_EDITING = [name for name, it in HARNESSES.items() if not it.can_edit]
YES, NO = Button(label="Approve", data="yes-1"), Button(label="Reject", data="no-1")


@pytest.fixture(params=HARNESSES)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with HARNESSES[request.param].run(tmp_path) as running:
        yield running


def test_every_channel_type_has_a_harness() -> None:
    assert HARNESSES.keys() == CHANNEL_TYPES.keys()


async def test_a_message_is_stored_under_its_conversation(harness: ChannelHarness) -> None:
    message_id = await harness.send("hello, Ünïcode 🎼")
    await harness.until_accepted(1)
    (stored,) = harness.control.accepted
    assert (stored.gateway, stored.dm, stored.text) == ("g", "alice", "hello, Ünïcode 🎼")
    assert stored.message_id == message_id


async def test_a_stranger_can_ask_once_for_a_conversation_and_is_not_read(
    harness: ChannelHarness,
) -> None:
    for _ in range(2):
        await harness.send_as_stranger("let me in")
    await harness.send("after it")
    await harness.until_accepted(1)
    asked = [harness.stranger_id] if harness.gateway.channel.has_pairing else []

    async def has_asked() -> bool:
        return [it.user_id for it in harness.control.strangers] == asked

    await until(has_asked)
    assert [it.text for it in harness.control.accepted] == ["after it"]
    assert await harness.shown() == []


async def test_messages_keep_their_order(harness: ChannelHarness) -> None:
    for number in range(10):
        await harness.send(str(number))
    await harness.until_accepted(10)
    assert [it.text for it in harness.control.accepted] == [str(number) for number in range(10)]


async def test_a_repeated_update_has_the_same_id(harness: ChannelHarness) -> None:
    await harness.send("once")
    await harness.until_accepted(1)
    await harness.repeat()
    await harness.send("then")
    await harness.until_accepted(2)
    assert [it.text for it in harness.control.accepted] == ["once", "then"]


@pytest.mark.parametrize("harness", EDITING, indirect=True)
async def test_an_edit_refers_to_the_message_that_it_corrects(harness: ChannelHarness) -> None:
    message_id = await harness.send("teh")
    # Before it is stored, a channel that reads its history may get the edited message alone.
    await harness.until_accepted(1)
    await harness.edit(message_id, "the")
    await harness.until_accepted(2)
    edit = harness.control.accepted[1]
    assert (edit.text, edit.edits) == ("the", message_id)


async def test_a_reply_refers_to_the_agents_message(harness: ChannelHarness) -> None:
    receipt = await harness.deliver(harness.message("Which one?"))
    (question,) = await harness.until_shown(1)
    await harness.send("this one", reply_to=question)
    await harness.until_accepted(1)
    (reply,) = harness.control.accepted
    assert reply.reply_to is not None and reply.reply_to.message_id == receipt.message_id


async def test_a_users_file_can_be_read_until_control_has_it(harness: ChannelHarness) -> None:
    content = bytes(range(256)) * 200
    await harness.send_file("table.bin", content, "look at this")
    await harness.until_accepted(1)
    (stored,) = harness.control.accepted
    (file,) = stored.attachments
    assert (stored.text, file.name) == ("look at this", "table.bin")
    for _ in range(2):  # control may ask again after a crash
        async with harness.channel.open_file(file.ref) as pieces:
            assert b"".join([piece async for piece in pieces]) == content


async def test_a_message_is_shown_and_its_receipt_has_its_id(harness: ChannelHarness) -> None:
    receipt = await harness.deliver(harness.message("Good morning."))
    assert (receipt.outbox_id, receipt.status) == (1, "delivered")
    (shown,) = await harness.until_shown(1)
    assert (shown.text, shown.message_id) == ("Good morning.", receipt.message_id)


async def test_nothing_of_a_long_message_is_lost(harness: ChannelHarness) -> None:
    words = [f"word{number}" for number in range(4_000)]
    await harness.deliver(harness.message(" ".join(words)))
    shown = await harness.until_shown(1)
    assert " ".join(message.text for message in shown).split() == words


@pytest.mark.parametrize(
    "text",
    [
        "<b>not bold</b> & <script>alert(1)</script>",
        "*open _nested `code ~~wrong [link](",
        "```\nno end",
        "\\_escaped\\_ | table | 1 < 2 > 0 @everyone <@1>",
        "‮right to left‬ and a NUL-free text",
    ],
)
async def test_characters_with_a_meaning_elsewhere_arrive(
    harness: ChannelHarness, text: str
) -> None:
    receipt = await harness.deliver(harness.message(text))
    assert receipt.status == "delivered"
    (shown,) = await harness.until_shown(1)
    for word in ("not bold", "script", "open", "nested", "wrong", "no end", "escaped", "table"):
        assert (word in shown.text) == (word in text)


async def test_an_agents_files_arrive_whole(harness: ChannelHarness) -> None:
    files = {"a.txt": b"first", "b.pdf": bytes(range(256)) * 100}
    receipt = await harness.deliver(harness.message("two files", files=files))
    assert receipt.status == "delivered"
    shown = await harness.until_shown(1)
    arrived = {name: content for it in shown for name, content in (it.files or {}).items()}
    assert arrived == files
    assert any("two files" in message.text for message in shown)


async def test_a_file_that_is_gone_is_named_and_the_text_arrives(harness: ChannelHarness) -> None:
    message = harness.message("see the file", files={"gone.txt": b"x"})
    harness.files.files.clear()
    receipt = await harness.deliver(message)
    assert receipt.status == "delivered"
    shown = await harness.until_shown(1) if not receipt.detail else []
    told = receipt.detail + " ".join(it.text for it in shown)
    assert "gone.txt" in told


async def test_a_press_of_a_button_reaches_control_with_its_data(harness: ChannelHarness) -> None:
    await harness.deliver(harness.message("May I?", buttons=(YES, NO)))
    (question,) = await harness.until_shown(1)
    assert question.buttons == ("Approve", "Reject")
    await harness.press(question, "Approve")
    async with asyncio.timeout(60):
        while not harness.control.pressed:
            await asyncio.sleep(0.02)
    (press,) = harness.control.pressed
    user_id = harness.user_id
    assert (press.gateway, press.user_id, press.chat_id) == ("g", user_id, user_id)
    assert press.data == "yes-1"


@pytest.mark.parametrize("harness", EDITING, indirect=True)
async def test_an_edit_replaces_the_text_and_the_buttons(harness: ChannelHarness) -> None:
    receipt = await harness.deliver(harness.message("May I?", buttons=(YES, NO)))
    edits = EditTarget(outbox_id=1, message_id=receipt.message_id)
    change = harness.message("Approved.", edits=edits)
    for _ in range(2):  # a repeated edit does no harm
        assert (await harness.deliver(change)).status == "delivered"

    async def is_edited() -> bool:
        return [it.text for it in await harness.shown()] == ["Approved."]

    async with asyncio.timeout(60):
        while not await is_edited():
            await asyncio.sleep(0.02)
    (shown,) = await harness.shown()
    assert shown.buttons == ()


@pytest.mark.parametrize("harness", NOT_EDITING, indirect=True)
async def test_without_edits_a_correction_is_one_new_message(harness: ChannelHarness) -> None:
    receipt = await harness.deliver(harness.message("May I?", buttons=(YES, NO)))
    edits = EditTarget(outbox_id=1, message_id=receipt.message_id)
    change = harness.message("Approved.", edits=edits)
    for _ in range(2):
        assert (await harness.deliver(change)).status == "delivered"
    shown = await harness.until_shown(2)
    assert [(it.text, it.buttons) for it in shown] == [
        ("May I?", ("Approve", "Reject")),
        ("Approved.", ()),
    ]
    assert shown[1].reply_to == receipt.message_id


async def test_an_edit_of_a_message_without_a_known_id_is_sent_as_a_new_one(
    harness: ChannelHarness,
) -> None:
    await harness.deliver(harness.message("Working.", edits=EditTarget(outbox_id=99)))
    (shown,) = await harness.until_shown(1)
    assert shown.text == "Working."


async def test_an_answer_shows_which_message_it_answers(harness: ChannelHarness) -> None:
    first = await harness.send("a question")
    await harness.send("another one")
    await harness.until_accepted(2)
    await harness.deliver(harness.message("the answer to the first", reply_to=first))
    (shown,) = await harness.until_shown(1)
    assert shown.reply_to == first


async def test_every_activity_may_be_shown_at_any_time(harness: ChannelHarness) -> None:
    card = Card(card_id="c", text="step 1", done=False)
    for what in (Typing(), Draft(text="So f"), card, Idle(), Draft(text=""), Typing()):
        harness.channel.show(DmActivity(dm="alice", gateway="g", what=what), harness.user_id)
        harness.channel.show(DmActivity(dm="alice", gateway="g", what=what), "not-a-number")
    await harness.deliver(harness.message("So far, so good."))

    async def is_shown() -> bool:
        return any(it.text == "So far, so good." for it in await harness.shown())

    async with asyncio.timeout(60):
        while not await is_shown():
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(("channel_type", "failure"), TEMPORARY_FAILURES)
async def test_a_failed_delivery_is_repeated_and_a_doubt_is_visible(
    channel_type: str, failure: Failure, tmp_path: Path
) -> None:
    async with HARNESSES[channel_type].run(tmp_path) as harness:
        harness.fail(failure)
        unknown = await _deliver_until_done(harness, harness.message("exactly this"))
        shown = await harness.until_shown(1)
        assert all("exactly this" in it.text for it in shown)
        # Never twice without a sign: the first was not shown, both have one id, or the copy says so.
        assert len(shown) == 1 or (unknown and shown[1].text != "exactly this")


@pytest.mark.parametrize("channel_type", WITH_BLOCKS)
async def test_a_user_who_left_is_a_final_answer_with_a_reason(
    channel_type: str, tmp_path: Path
) -> None:
    async with HARNESSES[channel_type].run(tmp_path) as harness:
        harness.fail("blocked")
        receipt = await harness.deliver(harness.message("hello?"))
        assert receipt.status == "undeliverable" and receipt.detail
        assert await harness.shown() == []


async def _deliver_until_done(harness: ChannelHarness, message: OutboundMessage) -> bool:
    """Deliver as control's outbox does; return whether an outcome was unknown."""
    unknown = False
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(Unavailable):
                try:
                    repeated = message.model_copy(update={"maybe_repeated": unknown})
                    await harness.channel.deliver(repeated, harness.user_id)
                except OutcomeUnknown:
                    unknown = True
                    raise
                return unknown
            await asyncio.sleep(0.05)
