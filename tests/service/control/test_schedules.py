"""Schedules in a running choird: reminders, prompts, their ends, and the commands of a conversation."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from choir_common.clock import SystemClock
from choir_common.errors import InvalidRequest
from choir_common.wire.events import CoreStarted, CoreStopped
from choir_common.wire.schedules import NewSchedule, ScheduleView
from choir_common.wire.signals import UserMessageSignal
from tests.service.control.agent_hand import AgentHand
from tests.service.control.world import World, until


class SetClock(SystemClock):
    """A clock whose wall time a test sets; monotonic time goes on."""

    def __init__(self) -> None:
        self.time = datetime(2026, 6, 1, 8, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self.time


@pytest.fixture
async def world(stopped: World) -> World:
    """A ready choird with a clock that stands still."""
    stopped.clock = SetClock()
    await stopped.start()
    return stopped


def clock_of(world: World) -> SetClock:
    assert isinstance(world.clock, SetClock)
    return world.clock


def look(world: World) -> None:
    """Let the worker look at the schedules now."""
    assert world.control is not None
    world.control.services.schedules.runner.wake()


def go_on(world: World, **duration: float) -> None:
    """Set the clock forward."""
    clock_of(world).time += timedelta(**duration)
    look(world)


async def until_time_is_seen(world: World) -> None:
    """Wait until the worker has ended the look that it began before the clock was set."""
    assert world.control is not None
    runner = world.control.services.schedules.runner
    look(world)

    async def is_seen() -> bool:
        # cleared right before a look reads the clock
        return not runner._wake.is_set()

    await until(is_seen, within=60)


async def add(world: World, text: str = "tea is ready", **fields: Any) -> ScheduleView:
    """Add a schedule as an operator; by default a reminder in five minutes."""
    settings = {"agent_id": "main", "kind": "remind", "timing": "in", "value": "5m", **fields}
    answer = await world.post("/v1/schedules", json={"text": text, **settings})
    assert answer.status_code == 201, answer.text
    return ScheduleView.model_validate_json(answer.content)


async def show(world: World, view: ScheduleView) -> ScheduleView:
    answer = await world.get(f"/v1/schedules/{view.schedule_id}")
    return ScheduleView.model_validate_json(answer.content)


async def until_states(world: World, view: ScheduleView, *states: str) -> ScheduleView:
    """Wait until the runs, oldest first, have these states."""
    shown = view

    async def reached() -> bool:
        nonlocal shown
        look(world)
        shown = await show(world, view)
        return [run.state for run in reversed(shown.runs)] == list(states)

    try:
        await until(reached, within=60)
    except TimeoutError:
        raise AssertionError(f"{shown.runs} are not {states}") from None
    return shown


async def test_a_reminder_is_sent_word_for_word_when_it_is_due(world: World) -> None:
    view = await add(world, "  *tea* is\nready ")
    look(world)
    await asyncio.sleep(0.1)
    assert world.gateway.texts == []
    go_on(world, minutes=5)
    assert await world.delivered(1) == ["  *tea* is\nready "]
    ended = await until_states(world, view, "done")
    assert (ended.state, ended.next_at) == ("ended", None)
    assert world.gateway.delivered[0].dm == "console"


async def test_a_reminder_that_is_late_says_when_it_was_due(world: World) -> None:
    view = await add(world, zone="Europe/Berlin", timing="at", value="12:00")
    await world.stop()
    clock_of(world).time += timedelta(hours=5)
    await world.start()
    (text,) = await world.delivered(1)
    assert text.startswith("tea is ready\n\n[Choir]")
    assert "2026-06-01 12:00 Europe/Berlin" in text
    await until_states(world, view, "done")


async def test_a_prompt_reaches_the_agent_as_a_wake_up_and_its_answer_ends_the_run(
    world: World, agent: AgentHand
) -> None:
    words = "look at https://news.example/"
    view = await add(world, words, kind="prompt", timing="every", value="1h")
    go_on(world, hours=1)
    signal = await agent.next_message()
    run_id = (await show(world, view)).runs[0].run_id
    assert (signal.inbox_id, signal.text) == (run_id, words)
    # the agent shows it in the prompt
    assert signal.sent_at == clock_of(world).time
    assert signal.wake_up is not None and not signal.wake_up.by_agent
    assert f"schedule {view.schedule_id}, every 1h" in signal.wake_up.summary
    await until_states(world, view, "running")
    assert world.control is not None
    hosts = await world.control.services.database.fetchval(
        "SELECT hosts FROM choir_control.inbox WHERE inbox_id = $1", run_id
    )
    assert hosts == ["news.example"], "the user has named it"
    await agent.take_up(signal)
    await agent.reply("nothing new", answers=signal.inbox_id)
    await until_states(world, view, "done")


async def start_job(
    world: World, agent: AgentHand, view: ScheduleView, name: str
) -> UserMessageSignal:
    """Run a schedule now, and let the agent start its core job."""
    started = await world.post(f"/v1/schedules/{view.schedule_id}/run")
    assert started.status_code == 200, started.text
    signal = await agent.next_message()
    await agent.take_up(signal)
    begun = CoreStarted(
        job_id=f"job_{name}",
        job_name=name,
        call_id="",
        dm="console",
        task_spec=signal.text,
        answers=signal.inbox_id,
    )
    agent.add(begun)
    await agent.flush()
    return signal


async def test_a_run_of_a_core_job_ends_with_the_job(world: World, agent: AgentHand) -> None:
    view = await add(world, "tidy up", kind="job", timing="every", value="1h", overlap="allow")
    signal = await start_job(world, agent, view, "one")
    assert signal.wake_up is not None
    assert (signal.wake_up.as_job, signal.wake_up.skill) == (True, "")
    go_on(world, seconds=1)
    await start_job(world, agent, view, "two")
    await until_states(world, view, "running", "running")
    agent.add(CoreStopped(job_id="job_one", job_name="one", outcome="completed"), "core:one")
    await agent.flush()
    await until_states(world, view, "done", "running")
    agent.add(
        CoreStopped(job_id="job_two", job_name="two", outcome="error", reason="no disk"), "core:two"
    )
    await agent.flush()
    shown = await until_states(world, view, "done", "failed")
    assert (shown.failures, shown.runs[0].detail) == (1, "error: no disk")


async def test_a_run_whose_session_ends_before_its_core_job_has_failed(
    world: World, agent: AgentHand
) -> None:
    view = await add(world, "tidy up", kind="job", timing="every", value="1h")
    await start_job(world, agent, view, "one")
    await until_states(world, view, "running")
    assert world.control is not None
    await world.control.services.database.execute(
        "UPDATE choir_control.sessions SET status = 'stopped', ended_at = clock_timestamp()"
    )
    shown = await until_states(world, view, "failed")
    assert shown.runs[0].detail == "its session ended before its core job did"


async def test_a_core_job_that_the_agent_refuses_to_start_is_a_failed_run(
    world: World, agent: AgentHand
) -> None:
    view = await add(world, "tidy up", kind="job", timing="every", value="1h")
    await world.post(f"/v1/schedules/{view.schedule_id}/run")
    signal = await agent.next_message()
    await agent.take_up(signal)
    await agent.reply("At most 0 core jobs", answers=signal.inbox_id, kind="error")
    shown = await until_states(world, view, "failed")
    assert (shown.failures, shown.runs[0].detail) == (1, "At most 0 core jobs")


async def test_a_skill_is_named_to_the_agent(world: World, agent: AgentHand) -> None:
    said = await world.say("/schedule add every 1w skill report", "u1")
    assert said.note is not None and "skill report Run the skill report." in said.note
    said = await world.say('/schedule add every 1w skill report {"week": "last"}', "u2")
    assert said.note is not None and 'skill report {"week": "last"}' in said.note
    view = await add(world, "report", kind="skill", skill="report", timing="every", value="1w")
    signal = await start_job(world, agent, view, "one")
    assert signal.wake_up is not None
    assert (signal.wake_up.as_job, signal.wake_up.skill) == (True, "report")


async def test_failed_answers_are_counted_and_pause_the_schedule_with_a_word(
    world: World, agent: AgentHand
) -> None:
    view = await add(
        world, "do it", kind="prompt", timing="every", value="1h", max_failures=2, catch_up="all"
    )
    for number in (1, 2):
        go_on(world, hours=1)
        signal = await agent.next_message()
        await agent.take_up(signal)
        await agent.reply("no credit", answers=signal.inbox_id, kind="error")
        shown = await until_states(world, view, *["failed"] * number)
        assert shown.runs[0].detail == "no credit"
    texts = await world.delivered(3)
    assert f"choirctl schedule resume {view.schedule_id}" in texts[-1]
    shown = await show(world, view)
    assert (shown.state, shown.failures, shown.note) == ("paused", 2, "its runs failed")
    resumed = await world.post(f"/v1/schedules/{view.schedule_id}/resume")
    assert resumed.json()["state"] == "active" and resumed.json()["failures"] == 0


async def test_a_prompt_waits_for_an_agent_that_does_not_run_and_runs_once_late(
    world: World,
) -> None:
    view = await add(world, "look", agent_id="other", kind="prompt", timing="every", value="1h")
    go_on(world, hours=1)
    shown = await until_states(world, view, "due")
    assert shown.note == "waits: other is not running"
    (notice,) = await world.delivered(1)
    assert notice.startswith(f"Schedule {view.schedule_id} (prompt “look”, every 1h) is due, but")
    run = await world.post(f"/v1/schedules/{view.schedule_id}/run")
    assert run.status_code == 409 and "other is not running" in run.text
    go_on(world, hours=1, minutes=30)
    await until_time_is_seen(world)
    started = await world.post("/v1/agents/other/start", json={"workspace": "spare"})
    assert started.status_code < 300, started.text
    await until_states(world, view, "missed", "running")
    signal = await (await world.agent(starts=2)).next_message()
    assert signal.wake_up is not None and "was due at" in signal.wake_up.summary
    assert len(world.gateway.texts) == 1


async def edit(world: World, view: ScheduleView, **fields: Any) -> ScheduleView:
    answer = await world.patch(f"/v1/schedules/{view.schedule_id}", json=fields)
    assert answer.status_code == 200, answer.text
    return ScheduleView.model_validate_json(answer.content)


async def test_a_changed_reminder_is_sent_once_with_its_new_words_at_its_new_time(
    world: World,
) -> None:
    view = await add(world)
    edited = await edit(world, view, text="coffee is ready", value="10m", words="coffee, please")
    assert (edited.text, edited.text_by, edited.words) == (
        "coffee is ready",
        "operator",
        "coffee, please",
    )
    assert edited.next_at == clock_of(world).time + timedelta(minutes=10)
    go_on(world, minutes=5)
    assert (await edit(world, view, max_failures=2)).runs == ()
    go_on(world, minutes=5)
    assert await world.delivered(1) == ["coffee is ready"]
    await until_states(world, view, "done")
    late = await world.patch(f"/v1/schedules/{view.schedule_id}", json={"text": "x"})
    assert late.status_code == 409 and "has ended" in late.text


async def test_what_is_due_is_sent_as_it_was_before_an_edit(world: World) -> None:
    view = await add(world, timing="every", value="5m")
    clock_of(world).time += timedelta(minutes=5)
    # before the worker looks
    edited = await edit(world, view, text="coffee is ready", value="1h")
    assert await world.delivered(1) == ["tea is ready"]
    assert [run.state for run in edited.runs] in (["running"], ["done"])
    assert edited.next_at == clock_of(world).time + timedelta(hours=1)
    go_on(world, hours=1)
    assert await world.delivered(2) == ["tea is ready", "coffee is ready"]
    await until_states(world, view, "done", "done")


async def test_a_new_time_skips_a_run_that_waits_for_its_agent(world: World) -> None:
    view = await add(world, "look", agent_id="other", kind="prompt", timing="every", value="1h")
    go_on(world, hours=1)
    await until_states(world, view, "due")
    edited = await edit(world, view, value="2h")
    assert [(run.state, run.detail) for run in edited.runs] == [
        ("skipped", "the time of the schedule was changed")
    ]
    assert (edited.note, edited.state) == ("", "active")


async def test_schedules_are_listed_page_by_page(world: World) -> None:
    numbers = [(await add(world, f"tea {number}")).schedule_id for number in range(3)]
    await add(world, "hidden", agent_id="other")
    listed: list[int] = []
    params = {"agent": "main", "limit": "2"}
    pages = 0
    while True:
        page = (await world.get("/v1/schedules", params=params)).json()
        listed += [item["schedule_id"] for item in page["items"]]
        pages += 1
        if page["next"] is None:
            break
        params = {**params, "cursor": page["next"]}
    assert (listed, pages) == (numbers, 2)
    for bad in ({"cursor": "x"}, {"cursor": "-1"}, {"cursor": str(2**63)}, {"limit": "0"}):
        assert (await world.get("/v1/schedules", params=bad)).status_code == 400


async def test_an_undeliverable_reminder_has_failed(world: World) -> None:
    world.gateway.fail_with = [InvalidRequest("no such chat")]
    view = await add(world)
    go_on(world, minutes=5)
    shown = await until_states(world, view, "failed")
    assert shown.runs[0].detail == "no such chat"


@pytest.mark.usefixtures("wide_pools")
async def test_two_workers_that_look_at_the_same_time_start_a_run_once(world: World) -> None:
    assert world.control is not None
    view = await add(world)
    runner = world.control.services.schedules.runner
    clock_of(world).time += timedelta(minutes=5)
    await asyncio.gather(*(runner.tick() for _ in range(8)))
    await until_states(world, view, "done")
    assert world.gateway.texts == ["tea is ready"]


async def test_a_repeated_request_creates_one_schedule(world: World) -> None:
    assert world.control is not None
    service = world.control.services.schedules.service
    request = NewSchedule(agent_id="main", kind="remind", text="x", timing="in", value="5m")
    first = await service.create(request, "agent main", "ses_1:call_1")
    again = await service.create(request, "agent main", "ses_1:call_1")
    assert first.schedule_id == again.schedule_id
    assert len(await service.list_all()) == 1


async def test_a_conversation_adds_lists_and_changes_its_schedules(world: World) -> None:
    said = await world.say("/schedule add every 1d remind water the plants", "u1")
    assert said.note is not None and "water the plants" in said.note
    (view,) = (await world.get("/v1/schedules", params={"agent": "main"})).json()["items"]
    number = view["schedule_id"]
    assert (view["created_by"], view["dm"]) == ("dm console", "console")
    assert view["words"] == "/schedule add every 1d remind water the plants"
    for update_id, text, words in (
        ("u2", "/schedule", "water the plants"),
        ("u3", f"/schedule pause {number}", "paused"),
        ("u4", f"/schedule pause {number}", "paused already"),
        ("u5", f"/schedule resume {number}", "next 2026-06-02"),
        ("u5a", f"/schedule update {number} every 2d text water the trees", "every 2d"),
        ("u5b", f"/schedule update {number} text water the plants", "every 2d"),
        ("u5c", f"/schedule update {number} at 09:00", "water the plants"),
        ("u5d", f"/schedule update {number} some day", "Nothing was done"),
        ("u6", f"/schedule run {number}", "Started"),
        ("u7", f"/schedule show {number}", "started by a person"),
        ("u8", f"/schedule remove {number}", "Removed"),
        ("u9", "/schedule", "no schedules"),
        ("u10", "/schedule add soon remind me", "Nothing was done"),
        ("u11", "/schedule add in soon remind me", "not a duration"),
        ("u12", "/schedule show x", "not a schedule's number"),
    ):
        note = (await world.say(text, update_id)).note
        assert note is not None and words in note, (text, note)
    assert await world.delivered(1) == ["water the plants"]


async def test_another_conversation_sees_and_changes_only_its_own_schedules(world: World) -> None:
    view = await add(world)
    listed = (await world.say("/schedule", "u1", dm="second")).note
    assert listed is not None and "There are no schedules" in listed
    removed = (await world.say(f"/schedule remove {view.schedule_id}", "u2", dm="second")).note
    assert removed is not None and "There is no schedule" in removed
    assert (await show(world, view)).state == "active"


REFUSED = (
    ({"agent_id": "nobody"}, 404, "There is no agent"),
    ({"dm": "nowhere"}, 404, "There is no DM"),
    ({"value": "soon"}, 400, "not a duration"),
    ({"zone": "Mars/Base"}, 400, "unknown time zone"),
    ({"timing": "cron", "value": "every day"}, 400, "five fields"),
    ({"jitter": "2h"}, 400, "at most one hour"),
    ({"text": ""}, 400, "text"),
    ({"kind": "skill"}, 400, "names a skill"),
    ({"kind": "job", "skill": "report"}, 400, "names a skill"),
    ({"kind": "skill", "skill": "No Name"}, 400, "skill"),
)


async def test_a_schedule_that_cannot_work_is_refused(
    world: World, subtests: pytest.Subtests
) -> None:
    body = {"agent_id": "main", "kind": "remind", "text": "x", "timing": "in", "value": "5m"}
    for fields, status, words in REFUSED:
        with subtests.test(words, fields=fields):
            answer = await world.post("/v1/schedules", json={**body, **fields})
            assert answer.status_code == status
            assert words in answer.text
            for path in ("/v1/schedules/99", "/v1/schedules/99999999999999999999"):
                assert (await world.get(path)).status_code == 404
