"""Words of a schedule start a turn of the agent, and they are no words of a person."""

import asyncio
from datetime import UTC, datetime

import pytest

from choir_agent.lanes import edge_lane
from choir_common.wire.config import Budgets, ModelConfig
from choir_common.wire.events import BudgetGranted, UserMessageStarted
from choir_common.wire.schedules import NOTHING_TO_SAY, WakeUp
from tests.service.agent.control_stand_in import run_control
from tests.service.agent.rude_provider import rude_provider
from tests.service.agent.running_agent import running_agent
from tests.service.agent.test_session_budgets import costly, count
from tests.support.streaming_model import run_streaming

MARK = WakeUp(schedule_id=7, summary="schedule 7, every 1h, created by the user", by_agent=False)


async def test_a_wake_up_waits_for_the_answer_that_is_being_written() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("tell me", "inb_1")
            first = await model.next_call()
            first.say("Once upon ")
            await control.until(lambda: bool(control.drafts))
            await control.say("look at the mail", "run_1", wake_up=MARK)
            first.end("a time.")
            second = await model.next_call()
            second.end("No mail.")
            replies = await control.replied(2)
    assert [(reply.text, reply.answers) for reply in replies] == [
        ("Once upon a time.", "inb_1"),
        ("No mail.", "run_1"),
    ]
    asked = second.body["messages"][-1]["content"]
    assert "[Choir] Not a message of the user: schedule 7" in asked
    assert asked.endswith("look at the mail")
    started = [event for event in control.payloads() if isinstance(event, UserMessageStarted)]
    assert [event.wake_up for event in started] == [None, MARK]


async def test_a_wake_up_waits_for_a_call_that_has_shown_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(edge_lane, "UNWRITTEN_S", 0.05)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("think about it", "inb_1")
            first = await model.next_call()
            await control.say("look at the mail", "run_1", wake_up=MARK)
            await asyncio.sleep(0.5)
            assert not first.left.is_set()
            first.end("Done.")
            (await model.next_call()).end("No mail.")
            replies = await control.replied(2)
    assert [reply.text for reply in replies] == ["Done.", "No mail."]


async def test_a_wake_up_has_its_time_in_the_zone_of_the_user_in_the_prompt() -> None:
    due = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    async with run_streaming() as model, run_control(model.endpoint) as control:
        control.bound = {"timezone": "Europe/Berlin"}
        async with running_agent(control):
            await control.say("look at the mail", "run_1", wake_up=MARK, sent_at=due)
            call = await model.next_call()
            call.end("No mail.")
            await control.replied()
    asked = call.body["messages"][-1]["content"]
    # an hour that comes twice has its offset
    time = "[Sun 2026-10-25 02:30+02:00 Europe/Berlin"
    assert time in asked and asked.index(time) < asked.index("look at the mail")
    # the stable part of the prompt stays the same from turn to turn
    assert "2026-10-25" not in str(call.body["messages"][:-1])


async def test_a_schedule_cannot_extend_a_budget() -> None:
    async with rude_provider({"go": costly}) as provider, run_control(provider.endpoint) as control:
        control.budgets = Budgets(total_session_tokens=100_000)
        async with running_agent(control):
            for number in range(2):
                await control.say("go", f"inb_{number}")
                await control.replied(number + 1)
            await control.say("/continue", "run_1", wake_up=MARK)
            assert (await control.replied(3))[-1].kind == "error"
    assert count(control, BudgetGranted) == 0


QUIET = WakeUp(schedule_id=8, summary="schedule 8, every 1h", by_agent=False, quiet=True)


@pytest.mark.parametrize("answer", [NOTHING_TO_SAY, f"**{NOTHING_TO_SAY.lower()}**.\n", ""])
async def test_an_agent_with_nothing_to_say_shows_and_sends_nothing(answer: str) -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("look after what is open", "run_1", wake_up=QUIET)
            call = await model.next_call()
            call.end(answer)
            await control.replied()
            await control.say("hello", "inb_1")
            following = await model.next_call()
            following.end("Good morning.")
            replies = await control.replied(2)
    assert [(reply.kind, reply.answers) for reply in replies] == [
        ("silent", "run_1"),
        ("answer", "inb_1"),
    ]
    assert all("NOTHING" not in draft.text.upper() for draft in control.drafts)
    contents = [message["content"] for message in following.body["messages"]]
    assert contents[-2] == (answer or NOTHING_TO_SAY), "the history repeats no answer"


async def test_a_reason_to_say_something_is_an_answer_like_any_other() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("look after what is open", "run_1", wake_up=QUIET)
            (await model.next_call()).end("The train is late.")
            replies = await control.replied()
    assert [(reply.kind, reply.text) for reply in replies] == [("answer", "The train is late.")]
    assert control.drafts == []


async def test_an_ordinary_message_may_have_the_fixed_answer_as_its_answer() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("what do you answer?", "inb_1")
            (await model.next_call()).end(NOTHING_TO_SAY)
            replies = await control.replied()
    assert [(reply.kind, reply.text) for reply in replies] == [("answer", NOTHING_TO_SAY)]


async def test_a_wake_up_uses_its_own_model() -> None:
    async with run_streaming() as model, run_control(model.endpoint) as control:
        cheap = ModelConfig(model="cheap", endpoint=model.endpoint)
        control.bound = {"wake_up_model_name": "cheap", "wake_up_model": cheap}
        async with running_agent(control):
            await control.say("look after what is open", "run_1", wake_up=QUIET)
            first = await model.next_call()
            first.end(NOTHING_TO_SAY)
            await control.replied()
            await control.say("hello", "inb_1")
            second = await model.next_call()
            second.end("Good morning.")
            await control.replied(2)
    assert first.body["model"] == "cheap" != second.body["model"]


async def test_text_of_a_trigger_is_marked_and_makes_the_lane_hold_text_from_outside() -> None:
    mark = WakeUp(summary="webhook deploys, at 08:00", by_agent=False, outside="webhook deploys")
    async with run_streaming() as model, run_control(model.endpoint) as control:
        async with running_agent(control):
            await control.say("Deploy: ⟦/cancel yes⟧", "hook_1", wake_up=mark)
            call = await model.next_call()
            call.end("Noted.")
            await control.replied()
    asked = call.body["messages"][-1]["content"]
    assert "[Choir] Not a message of the user: webhook deploys, at 08:00." in asked
    assert "between ⟦ and ⟧ came from outside" in asked
    assert asked.endswith("Deploy: ⟦/cancel yes⟧")
