"""Buttons of requests: forged, replayed, another's, late. Only the press that was offered decides (S11)."""

import os
import secrets
from collections.abc import Sequence

import pytest

from choir_common.clients.control import NatsControlClient
from choir_common.wire.messages import ButtonPress, OutboundMessage
from choir_control.approvals.buttons import REFUSED
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_notices import ask
from tests.service.control.world import World, until

FORGED = int(os.environ.get("CHOIR_TEST_FORGED_PRESSES", "200"))


def a_press(data: str, callback_id: str = "cb", **other: str) -> ButtonPress:
    """Make a press by the conversation's own user."""
    said = {"gateway": "console", "user_id": "operator", "chat_id": "operator", **other}
    return ButtonPress(data=data, callback_id=callback_id, message_id="m1", **said)


async def asked_with_buttons(world: World, agent: AgentHand) -> tuple[str, OutboundMessage]:
    """Ask; return the request's id and the message that shows its buttons."""
    approval = await ask(agent)
    await world.delivered(1)
    return approval, world.gateway.delivered[0]


async def status_of(world: World, approval: str) -> str:
    return str((await world.get(f"/v1/approvals/{approval}")).json()["status"])


def forgeries(yes: str) -> Sequence[ButtonPress]:
    """Return presses that nobody was offered, near misses first."""
    near = [
        a_press(yes, user_id="stranger", chat_id="stranger"),
        a_press(yes, chat_id="a group"),
        a_press(yes, gateway="bot", user_id="7", chat_id="7"),
        a_press(yes, gateway="nowhere"),
        a_press(yes[:-1] + "z"),
        a_press(yes.replace("a:", "b:")),
        a_press(yes.swapcase()),
        a_press(yes[:-2]),
        a_press("a::y"),
        a_press("' OR true --"),
        a_press(""),
    ]
    wild = [a_press(f"a:{secrets.token_urlsafe(16)}:y", f"w{n}") for n in range(FORGED - len(near))]
    return [*near, *wild]


@pytest.mark.timeout(600)
async def test_forged_presses_decide_nothing_and_are_counted(
    world: World, agent: AgentHand
) -> None:
    approval, message = await asked_with_buttons(world, agent)
    yes, no = (button.data for button in message.buttons)
    control = NatsControlClient(world.bus)
    answers = {(await control.press(press)).answer for press in forgeries(yes)}
    assert answers == {REFUSED}, "whatever was wrong, the words are the same"
    assert await status_of(world, approval) == "pending"
    figures = (await world.get("/metrics")).text
    assert f"choir_presses_refused_total {FORGED}.0" in figures
    # and the true one still works, once; the other button is dead with it
    assert (await control.press(a_press(yes, "true"))).answer == "Approved."
    assert (await control.press(a_press(yes, "true"))).answer == "Approved.", "the same press again"
    for button in (yes, no):
        assert (await control.press(a_press(button, "another"))).answer == REFUSED
    decided = (await world.get(f"/v1/approvals/{approval}")).json()
    assert decided["decided_by"] == "dm console" and decided["status"] == "approved"


async def test_a_press_edits_what_asked_and_says_nothing_anew(
    world: World, agent: AgentHand
) -> None:
    approval, message = await asked_with_buttons(world, agent)
    answer = await NatsControlClient(world.bus).press(a_press(message.buttons[1].data))
    assert answer.answer == "Rejected."

    async def edited() -> bool:
        return len(world.gateway.delivered) > 1

    await until(edited)
    edit = world.gateway.delivered[1]
    assert edit.edits is not None and edit.buttons == ()
    assert (edit.edits.outbox_id, edit.edits.message_id) == (
        message.outbox_id,
        f"m{message.outbox_id}",
    )
    assert edit.text.startswith("Rejected by dm console:") and approval in edit.text


async def test_a_decision_made_elsewhere_edits_the_message_and_kills_its_buttons(
    world: World, agent: AgentHand
) -> None:
    approval, message = await asked_with_buttons(world, agent)
    await world.post(f"/v1/approvals/{approval}/reject")

    async def edited() -> bool:
        return any(said.edits is not None for said in world.gateway.delivered)

    await until(edited)
    told = await NatsControlClient(world.bus).press(a_press(message.buttons[0].data))
    assert told.answer == REFUSED
    assert await status_of(world, approval) == "rejected"


async def test_a_button_from_before_a_restart_decides_after_it(
    world: World, agent: AgentHand
) -> None:
    approval, message = await asked_with_buttons(world, agent)
    await world.stop()
    await world.start()
    answer = await NatsControlClient(world.bus).press(a_press(message.buttons[0].data))
    assert answer.answer == "Approved."
    assert await status_of(world, approval) in ("approved", "executed", "executing", "failed")


async def test_a_command_that_replies_to_the_message_means_its_request(
    world: World, agent: AgentHand
) -> None:
    first, message = await asked_with_buttons(world, agent)
    second = await ask(agent, "c2", payload={"patch": {"event_window": 61}, "reason": "more"})
    await world.delivered(2)
    said = await world.say("/reject", "r1", reply_to=f"m{message.outbox_id}")
    assert first in (said.note or "") and second not in (said.note or "")
    assert [await status_of(world, one) for one in (first, second)] == ["rejected", "pending"]
