"""One agent for a family on one whole stack: rights, secrets and approvals of two people, and kills.

The tests run in this order: after a link, agent, control and gateway are killed (R1, R2) while ten messages
are in flight in all six conversations. What follows is tried on what has recovered.
"""

import asyncio
import os
import random
import re
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from choir_common.wire.events import Reply, UserMessageStarted, parse_payload
from tests.faults.mending import MEND_WITHIN_S
from tests.journey.family import (
    ADA,
    BOB,
    BOT_NAME,
    BOT_TOKEN,
    CONVERSATIONS,
    QUESTION,
    SECRET_FACT,
    Family,
    running_family,
)
from tests.support.stack import read_log, sessions_of, verify

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # test_people_rights.py, test_pairing.py and test_memory_between_people.py have each step
    pytest.mark.nightly,
]
# `make nightly` kills each process twenty times
ROUNDS = int(os.environ.get("CHOIR_KILLS", "1"))
VICTIMS = ("agent", "control", "gateway")
IN_FLIGHT = {"phone": 2, "console": 2, "discord": 1, "slack": 2, "bob": 1, "team": 2}
"""Ten messages around a kill."""
BUSY_S = 1.5
REPEATED = "(possibly repeated) "
MAY_REPEAT = ("phone", "bob", "team", "slack")
"""Telegram and Slack do not recognise a repeated message: a copy has a label there."""
ANSWER = "you said "


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family() -> AsyncIterator[Family]:
    async with running_family() as running:
        yield running


async def test_a_code_of_one_channel_makes_another_one_the_owners(family: Family) -> None:
    await family.ask("discord", "/cost", "for admin conversations")
    shown = await family.ask("phone", "/link", "/link ")
    code = re.search(r"/link \w{8}", shown)
    assert code is not None
    await family.ask("discord", code[0], "ada's, with the role owner")
    await family.ask("discord", "/cost", "this month")


@pytest.mark.nightly
@pytest.mark.timeout(max(900, 300 * ROUNDS))
async def test_kills_lose_double_and_mix_nothing_in_six_conversations(
    family: Family,
) -> None:
    said: dict[str, list[str]] = {dm: [] for dm in CONVERSATIONS}
    for number, victim in enumerate(VICTIMS * ROUNDS):
        marks = {
            dm: [f"{victim} {number} {dm} {count}" for count in range(messages)]
            for dm, messages in IN_FLIGHT.items()
        }
        async with asyncio.TaskGroup() as tasks:
            for dm, texts in marks.items():
                tasks.create_task(say_all(family, dm, texts))
                said[dm] += texts
            await asyncio.sleep(random.uniform(0, BUSY_S))
            await family.stack.kill(victim)
        await until_shown(family, said)
    for dm, texts in said.items():
        check_shown(family.shown(dm), texts, dm)
    check_group(family)
    await check_logs(family, said)


async def test_what_is_told_in_private_is_found_by_the_same_person_only(
    family: Family,
) -> None:
    await family.ask("console", f"Please remember: {SECRET_FACT}", "Remembered: ")
    for dm in ("phone", "discord"):
        await family.ask(dm, f"So, {QUESTION}?", SECRET_FACT)
    for dm in ("slack", "bob", "team"):
        # in the group it is Ada who asks, but Bob reads the answer
        answer = await family.ask(dm, f"So, {QUESTION}?", "Memory says: ")
        assert "success" in answer and "otter" not in answer, dm


async def test_a_members_request_is_asked_and_decided_in_the_owners_conversation(
    family: Family,
) -> None:
    phone = family.telegram.user(ADA.user_id, BOT_TOKEN)
    await family.say("slack", "Please write down: a loaf of bread")
    notice = await family.see("slack", "needs an admin's approval")
    request = re.search(r"appr_\w+", notice)
    assert request is not None
    await family.ask("slack", f"/approve {request[0]}", "for admin conversations")
    await family.see("phone", request[0])
    (asked,) = (message for message in phone.chat.messages.values() if message.buttons)
    assert family.ledger == []
    await phone.press(asked, asked.buttons[0].text)
    await family.see("slack", "Written: success.")
    assert family.ledger == ["a loaf of bread"]
    await family.see("phone", "Approved by dm phone")


async def say_all(family: Family, dm: str, texts: list[str]) -> None:
    """Write texts in a conversation, one after the other; in the group both people write."""
    for number, text in enumerate(texts):
        await family.say(dm, text, (ADA, BOB)[number % 2])


def answers_in(shown: list[str]) -> list[str]:
    """Return the texts that are answered, in the order of the answers, with the repetitions."""
    plain = [text.removeprefix(REPEATED) for text in shown]
    return [text.removeprefix(ANSWER) for text in plain if text.startswith(ANSWER)]


async def until_shown(family: Family, said: dict[str, list[str]]) -> None:
    """Wait until each conversation shows all its answers."""
    deadline = time.monotonic() + MEND_WITHIN_S
    while missing := {
        dm: absent
        for dm, texts in said.items()
        if (absent := set(texts) - set(answers_in(family.shown(dm))))
    }:
        assert time.monotonic() < deadline, f"{missing}\n{family.stack.logs()}"
        await asyncio.sleep(0.1)


def check_shown(shown: list[str], said: list[str], dm: str) -> None:
    """Assert that a conversation shows the own answers only, each once and in order."""
    assert list(dict.fromkeys(answers_in(shown))) == said, dm
    copies = Counter(answers_in(shown))
    assert set(copies.values()) == {1} or dm in MAY_REPEAT, dm
    first_time = Counter(text for text in shown if text.startswith(ANSWER))
    assert set(first_time.values()) <= {1}, dm


def check_group(family: Family) -> None:
    """Assert that each answer in the group replies to its question."""
    messages = family.team.chat.messages
    for message in messages.values():
        if message.from_bot and (answered := answers_in([message.text])):
            assert message.reply_to is not None
            assert messages[message.reply_to].text == f"{BOT_NAME} {answered[0]}"


async def check_logs(family: Family, said: dict[str, list[str]]) -> None:
    """Assert that the log has each message and its answer once, in order, in the same conversation."""
    sessions = [str(it["session_id"]) for it in await sessions_of(family.stack)]
    messages: dict[str, UserMessageStarted] = {}
    answers: list[Reply] = []
    for session in reversed(sessions):
        assert (await verify(family.stack, session)).ok
        for event in await read_log(family.stack, session):
            match parse_payload(event):
                case UserMessageStarted() as message:
                    assert message.inbox_id not in messages
                    messages[message.inbox_id] = message
                case Reply() as reply if reply.answers and reply.text.startswith(ANSWER):
                    answers.append(reply)
    for dm, texts in said.items():
        assert [it.text for it in messages.values() if it.dm == dm] == texts, dm
        assert [messages[it.answers or ""].text for it in answers if it.dm == dm] == texts, dm
