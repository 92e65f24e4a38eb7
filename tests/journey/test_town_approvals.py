"""What an agent wishes and a person decides on a phone: by a button, a number, a reply."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from choir_testing.telegram import InlineButton, SentMessage
from tests.journey.town import LOBBY, Phone, Town, founding_town

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # test_personal_agent.py decides by buttons; tests/service/control/test_approvals.py has the rest
    pytest.mark.nightly,
]
NEUTRAL = "This is no longer open."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town() -> AsyncIterator[Town]:
    async with founding_town() as founded:
        yield founded


async def wish(phone: Phone, words: str) -> SentMessage:
    """Have the agent wish for something; return the message that asks for a decision."""
    after = phone.newest
    await phone.user.send(f"I would like {words}")
    asked = await phone.finds(lambda m: bool(m.buttons), after, "buttons")
    # said behind it: so control knows by now which message has the buttons
    await phone.sees(f"I have asked for {words}.", after)
    return asked


async def answer_of(town: Town, count: int) -> str | None:
    """Wait until so many presses were answered; return the newest answer."""
    answers = town.telegram.bot(LOBBY).answers
    async with asyncio.timeout(120):
        while len(answers) < count:
            await asyncio.sleep(0.02)
    return answers[-1].text


async def approvals(town: Town) -> dict[str, dict[str, Any]]:
    listed = await asyncio.to_thread(town.stack.run, "approval", "list", "--all", "--json")
    return {str(each["approval_id"]): each for each in json.loads(listed)}


def named(asked: SentMessage) -> str:
    """Return the id of the request a message asks about."""
    return asked.text.rsplit("/approve ", 1)[1].split()[0]


async def test_a_button_approves_once_and_the_message_says_so(town: Town) -> None:
    asked = await wish(town.ben, "a wider window")
    assert "helper requests" in asked.text and "event_window" in asked.text
    assert [button.text for button in asked.buttons] == ["Approve", "Reject"]
    before, name = len(town.telegram.bot(LOBBY).answers), named(asked)
    approve, reject = asked.buttons
    await town.ben.user.forge_press(asked, approve)
    assert await answer_of(town, before + 1) == "Approved."
    for button in (approve, reject):
        await town.ben.user.forge_press(asked, button)
    assert await answer_of(town, before + 3) == NEUTRAL
    await town.ben.user.wait_until(lambda _: not asked.buttons, 120)
    assert asked.text.startswith("Approved by dm ben") and "Executing." in asked.text
    assert name in (await town.ben.sees("Done: ", asked.message_id)).text
    config = json.loads((town.stack.home / "config.json").read_text())
    assert config["event_window"] == 60


async def test_a_button_rejects_and_nothing_changes(town: Town) -> None:
    asked = await wish(town.ben, "more steps")
    before = len(town.telegram.bot(LOBBY).answers)
    await town.ben.user.press(asked, "Reject")
    assert await answer_of(town, before + 1) == "Rejected."
    await town.ben.user.wait_until(lambda _: not asked.buttons, 120)
    assert asked.text.startswith("Rejected by dm ben")
    config = json.loads((town.stack.home / "config.json").read_text())
    assert "max_steps_per_turn" not in config.get("budgets", {})


async def test_anothers_button_a_forged_one_and_anothers_request_have_no_effect(town: Town) -> None:
    asked = await wish(town.ada, "more steps")
    before = len(town.telegram.bot(LOBBY).answers)
    yes = asked.buttons[0]
    await town.ben.user.forge_press(asked, yes)  # Ben holds Ada's button in his own chat
    stranger = town.phone(666, LOBBY)
    await stranger.user.forge_press(asked, yes)
    changed = yes.callback_data[:-3] + ("A" if yes.callback_data[-3] != "A" else "B") + ":y"
    await town.ada.user.forge_press(asked, InlineButton("Approve", changed))
    assert await answer_of(town, before + 3) == NEUTRAL
    words = await town.ben.asks(f"/approve {named(asked)}", "There is no approval request")
    assert named(asked) in words
    assert "No request is pending" in await town.ben.asks("/approvals", "No request is pending")
    assert (await approvals(town))[named(asked)]["state"] == "pending"
    assert stranger.user.chat.bot_texts() == []
    await town.ada.asks(f"/reject {named(asked)}", "Rejected: main requests")
    await town.ada.user.wait_until(lambda _: not asked.buttons, 120)


async def test_of_several_a_number_is_chosen_and_an_admin_sees_everybodys(town: Town) -> None:
    of_main = await wish(town.ada, "more steps")
    of_helper = await wish(town.ben, "more steps")
    own = await town.ben.asks("/approvals", "1. helper requests")
    assert "main" not in own
    everybodys = await town.ada.asks("/approvals", "1. main requests")
    second = everybodys.splitlines()[1]
    assert second.startswith("2. helper requests") and named(of_helper) in second
    await town.ada.asks("/reject", "Which one?")
    await town.ada.asks("2", "Rejected: helper requests")
    await town.ben.user.wait_until(lambda _: not of_helper.buttons, 120)
    assert of_helper.text.startswith("Rejected by dm ada")
    assert "max_steps_per_turn" in await town.ada.asks("/approvals 1", "[pending]")
    await town.ada.asks("/approve 1", "Approved: main requests")
    await town.ada.user.wait_until(lambda _: not of_main.buttons, 120)
    await town.ada.sees("Done: ", of_main.message_id)
    config = json.loads((town.stack.home / "config.json").read_text())
    assert config["budgets"]["max_steps_per_turn"] == 50
    assert "already" in await town.ada.asks("/approve 2", "was rejected by dm ada")
    assert "no number 9" in await town.ada.asks("/approve 9", "no number")


async def test_a_reply_to_the_request_decides_that_one_and_a_lone_one_needs_no_name(
    town: Town,
) -> None:
    first, second = await wish(town.ben, "more steps"), await wish(town.ben, "a wider window")
    after = town.ben.newest
    await town.ben.user.reply(first, "/reject")
    assert named(first) in (await town.ben.sees("Rejected: helper requests", after)).text
    assert (await approvals(town))[named(second)]["state"] == "pending"
    assert named(second) in await town.ben.asks("/reject", "Rejected: helper requests")
    assert "No request is pending" in await town.ben.asks("/approve", "No request is pending")


async def test_what_is_decided_elsewhere_takes_the_buttons_away(town: Town) -> None:
    asked = await wish(town.ben, "more steps")
    await asyncio.to_thread(town.stack.run, "approval", "reject", named(asked))
    await town.ben.user.wait_until(lambda _: not asked.buttons, 120)
    assert asked.text.startswith("Rejected by operator")


async def test_a_button_of_before_a_restart_of_the_gateway_still_decides_once(town: Town) -> None:
    asked = await wish(town.ben, "more steps")
    before = len(town.telegram.bot(LOBBY).answers)
    name = named(asked)
    await town.stack.kill("gateway")
    await town.ben.user.press(asked, "Reject")
    assert await answer_of(town, before + 1) == "Rejected."
    await town.ben.user.wait_until(lambda _: not asked.buttons, 120)
    assert (await approvals(town))[name]["state"] == "rejected"
