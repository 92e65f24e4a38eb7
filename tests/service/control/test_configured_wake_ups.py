"""`agents.NAME.wake_ups` in a running choird: its schedule, quiet hours, the number a day, and silence."""

import json
from datetime import timedelta
from typing import Any

import pytest

from choir_common.wire.events import CoreStarted
from choir_common.wire.schedules import NOTHING_TO_SAY, ScheduleView
from tests.service.control.agent_hand import AgentHand
from tests.service.control.test_schedules import SetClock, go_on, show, until_states
from tests.service.control.world import World, until


def configure(world: World, wake_ups: dict[str, Any] | None) -> None:
    file = world.settings.config_file
    config = json.loads(file.read_text())
    config["agents"]["main"] |= {"timezone": "UTC", "wake_ups": wake_ups}
    file.write_text(json.dumps(config))


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird whose agent wakes up hourly, at 08:00 UTC."""
    stopped.clock = SetClock()
    configure(stopped, {"every": "1h", "max_per_day": 2, "quiet_hours": "10:30-12:30"})
    await stopped.start()
    return stopped


async def schedules(world: World) -> list[ScheduleView]:
    page = (await world.get("/v1/schedules")).json()
    return [ScheduleView.model_validate_json(json.dumps(item)) for item in page["items"]]


async def the_schedule(world: World) -> ScheduleView:
    async def created() -> bool:
        return len(await schedules(world)) == 1

    await until(created)
    return (await schedules(world))[0]


async def test_an_agent_with_nothing_to_say_is_woken_and_nothing_is_sent(
    world: World, agent: AgentHand
) -> None:
    view = await the_schedule(world)
    assert (view.created_by, view.kind, view.summary) == ("choir", "prompt", "every 1h")
    agent.add(CoreStarted(job_id="j1", job_name="tea", call_id="", dm="console", task_spec="x"))
    await agent.flush()
    go_on(world, hours=1)
    signal = await agent.next_message()
    assert signal.wake_up is not None and signal.wake_up.quiet
    assert "Open core jobs: tea." in signal.text and NOTHING_TO_SAY in signal.text
    await agent.take_up(signal)
    await agent.reply(NOTHING_TO_SAY, answers=signal.inbox_id, kind="silent")
    await until_states(world, view, "done")
    await agent.reply("hello", kind="notice")
    assert await world.delivered(1) == ["hello"]


async def test_quiet_hours_and_the_number_a_day_skip_wake_ups(
    world: World, agent: AgentHand
) -> None:
    view = await the_schedule(world)

    async def answer() -> None:
        signal = await agent.next_message()
        await agent.take_up(signal)
        await agent.reply(NOTHING_TO_SAY, answers=signal.inbox_id, kind="silent")

    go_on(world, hours=1)
    await answer()
    await until_states(world, view, "done")
    go_on(world, hours=1)  # 10:00
    await answer()
    await until_states(world, view, "done", "done")
    go_on(world, hours=1)  # 11:00
    shown = await until_states(world, view, "done", "done", "skipped")
    assert shown.runs[0].detail == "quiet hours (10:30-12:30)"
    go_on(world, hours=2)  # 13:00
    shown = await until_states(world, view, "done", "done", "skipped", "missed", "skipped")
    assert shown.runs[0].detail == "2 wake-ups today already (max_per_day)"
    go_on(world, hours=20)  # the next day
    await answer()
    shown = await show(world, view)
    assert shown.runs[0].state in ("running", "done")
    assert world.gateway.texts == []


async def test_missed_wake_ups_are_neither_made_up_for_nor_told(world: World) -> None:
    view = await the_schedule(world)
    await world.stop()
    clock = world.clock
    assert isinstance(clock, SetClock)
    clock.time += timedelta(hours=5, minutes=30)
    await world.start()
    await until_states(world, view, *["missed"] * 5)
    assert world.gateway.texts == []


async def test_a_changed_or_removed_configuration_changes_the_schedule(world: World) -> None:
    first = await the_schedule(world)
    await world.stop()
    configure(world, {"every": "2h"})
    await world.start()

    async def values() -> list[str]:
        return [view.value for view in await schedules(world)]

    async def has(expected: list[str]) -> bool:
        return await values() == expected

    await until(lambda: has(["2h"]))
    assert (await schedules(world))[0].schedule_id != first.schedule_id
    await world.stop()
    configure(world, None)
    await world.start()
    await until(lambda: has([]))
