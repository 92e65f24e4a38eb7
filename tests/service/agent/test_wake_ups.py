"""Words of a schedule start a turn of the agent, and they are no words of a person."""

import asyncio
from datetime import UTC, datetime

import pytest

from choir_agent.lanes import edge_lane
from choir_common.wire.config import Budgets
from choir_common.wire.events import BudgetGranted, UserMessageStarted
from choir_common.wire.schedules import WakeUp
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
