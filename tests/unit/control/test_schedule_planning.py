"""Rules for runs: late, overlapping, failing and paused ones, and clocks that are set."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from choir_common.errors import Conflict
from choir_common.wire.schedules import CatchUp, Overlap, RunState, ScheduleKind
from choir_control.conversations.schedules.planning import (
    backoff,
    plan,
    plan_manual_run,
    plan_pause,
    plan_resume,
    start_time,
)
from choir_control.conversations.schedules.records import (
    OpenRun,
    Schedule,
    ScheduleChange,
    ScheduleRules,
)
from choir_control.conversations.schedules.timing import Cron, Interval, Once, Timing, next_due

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
HOURLY = Interval(START, HOUR)
STOPPED = "main is not running"


def make_schedule(
    timing: Timing = HOURLY,
    *,
    kind: ScheduleKind = "prompt",
    catch_up: CatchUp = "once",
    overlap: Overlap = "skip",
    jitter: timedelta = timedelta(0),
    **more: Any,
) -> Schedule:
    schedule = Schedule(
        schedule_id=1,
        revision=0,
        agent_id="main",
        dm="console",
        kind=kind,
        text="look at the mail",
        skill="",
        timing_kind="every",
        value="1h",
        zone="UTC",
        timing=timing,
        rules=ScheduleRules(catch_up, 10 * MINUTE, overlap, jitter, max_failures=3),
        state="active",
        note="",
        failures=0,
        failed_at=None,
        next_due=next_due(timing, START),
        planned_at=START,
        created_by="operator",
        text_by="operator",
        words="",
        created_at=START,
    )
    return replace(schedule, **more)


class Simulation:
    """A schedule and its runs in memory, changed as the store changes them."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.runs: dict[datetime, RunState] = {}
        self.notices: list[str] = []
        self.started: list[datetime] = []

    def tick(self, now: datetime, blocked: str = "") -> None:
        """Plan until nothing changes any more; a started run ends at once."""
        for _ in range(20):
            change = plan(self.schedule, now, blocked)
            if change is None:
                return
            self.apply(change, now)
            self.end("done")

    def apply(self, change: ScheduleChange, now: datetime) -> None:
        for run in change.runs:
            if self.runs.get(run.due_at, "due") == "due":
                self.runs[run.due_at] = run.state
                if run.state == "running":
                    self.started.append(run.due_at)
        if change.notice:
            self.notices.append(change.notice)
        self.schedule = replace(
            self.schedule,
            state=change.state,
            next_due=change.next_due,
            note=change.note,
            failures=self.schedule.failures if change.failures is None else change.failures,
            planned_at=now,
            open_runs=tuple(
                OpenRun(str(due_at), due_at, state)
                for due_at, state in sorted(self.runs.items())
                if state in ("due", "running")
            ),
        )

    def end(self, state: RunState) -> None:
        """End the running runs."""
        self.runs = {at: state if old == "running" else old for at, old in self.runs.items()}
        still_open = tuple(run for run in self.schedule.open_runs if run.state == "due")
        self.schedule = replace(self.schedule, open_runs=still_open)


def states(change: ScheduleChange | None) -> list[tuple[int, RunState]]:
    """Return the hour and the state of each run of a change."""
    assert change is not None
    return [((run.due_at - START) // HOUR, run.state) for run in change.runs]


def test_a_run_starts_when_it_is_due_and_not_earlier() -> None:
    schedule = make_schedule()
    assert plan(schedule, START + HOUR - MINUTE, "") is None
    change = plan(schedule, START + HOUR, "")
    assert states(change) == [(1, "running")]
    assert change is not None and change.next_due == START + 2 * HOUR
    assert not change.runs[0].is_late


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        ("once", [(1, "missed"), (2, "missed"), (3, "running")]),
        ("skip", [(1, "missed"), (2, "missed"), (3, "missed")]),
        ("all", [(1, "running"), (2, "running"), (3, "running")]),
    ],
)
def test_late_runs_follow_the_catch_up_rule(
    catch_up: CatchUp, expected: list[tuple[int, RunState]]
) -> None:
    change = plan(make_schedule(catch_up=catch_up), START + 3 * HOUR + 30 * MINUTE, "")
    assert states(change) == expected
    assert change is not None and bool(change.notice) == (catch_up == "skip")


def test_within_the_grace_a_run_is_not_late() -> None:
    change = plan(make_schedule(catch_up="skip"), START + 3 * HOUR + 10 * MINUTE, "")
    assert states(change) == [(1, "missed"), (2, "missed"), (3, "running")]
    assert change is not None and not change.runs[-1].is_late


@pytest.mark.parametrize(
    ("overlap", "expected"), [("skip", "skipped"), ("wait", "due"), ("allow", "running")]
)
def test_a_run_during_an_earlier_one_follows_the_overlap_rule(
    overlap: Overlap, expected: RunState
) -> None:
    running = OpenRun("run_1", START + HOUR, "running")
    schedule = make_schedule(overlap=overlap, next_due=START + 2 * HOUR, open_runs=(running,))
    assert states(plan(schedule, START + 2 * HOUR, "")) == [(2, expected)]


def test_a_waiting_run_starts_after_the_earlier_one_and_only_one_waits() -> None:
    simulation = Simulation(make_schedule(overlap="wait"))
    for hour in (1, 2, 3):
        change = plan(simulation.schedule, START + hour * HOUR, "")
        assert change is not None
        simulation.apply(change, START + hour * HOUR)
    assert list(simulation.runs.values()) == ["running", "due", "skipped"]
    simulation.end("done")
    simulation.tick(START + 3 * HOUR + MINUTE)
    assert list(simulation.runs.values()) == ["done", "done", "skipped"]


def test_a_single_run_that_waits_for_a_manual_one_starts_after_it() -> None:
    simulation = Simulation(make_schedule(Once(START + HOUR), overlap="wait"))
    manual = plan_manual_run(simulation.schedule, START + 59 * MINUTE, "")
    simulation.apply(manual, START + 59 * MINUTE)
    change = plan(simulation.schedule, START + HOUR, "")
    assert change is not None and (change.state, change.next_due) == ("active", None)
    simulation.apply(change, START + HOUR)
    simulation.end("done")
    simulation.tick(START + HOUR + MINUTE)
    assert list(simulation.runs.values()) == ["done", "done"]
    assert simulation.schedule.state == "ended"


def test_a_prompt_waits_for_its_agent_says_so_once_and_then_follows_the_catch_up_rule() -> None:
    simulation = Simulation(make_schedule())
    simulation.tick(START + HOUR, STOPPED)
    simulation.tick(START + 2 * HOUR, STOPPED)
    assert list(simulation.runs.values()) == ["due"]
    assert len(simulation.notices) == 1 and STOPPED in simulation.notices[0]
    simulation.tick(START + 3 * HOUR)
    assert list(simulation.runs.values()) == ["missed", "missed", "done"]


def test_a_reminder_needs_no_agent() -> None:
    assert states(plan(make_schedule(kind="remind"), START + HOUR, STOPPED)) == [(1, "running")]


def test_after_a_failure_the_next_start_waits_longer_each_time_and_then_the_schedule_pauses() -> (
    None
):
    assert [backoff(n) for n in (1, 2, 3, 30)] == [MINUTE, 2 * MINUTE, 4 * MINUTE, 6 * HOUR]
    minutely = Interval(START, MINUTE)
    failed = make_schedule(minutely, failures=2, failed_at=START)
    change = plan(failed, START + MINUTE, "")
    assert change is not None and [run.state for run in change.runs] == ["skipped"]
    assert states(plan(replace(failed, next_due=START + 2 * MINUTE), START + 2 * MINUTE, "")) == [
        (0, "running")
    ]
    change = plan(replace(failed, failures=3), START + MINUTE, "")
    assert change is not None and change.state == "paused" and "resume 1" in change.notice


def test_times_during_a_pause_get_their_own_state() -> None:
    simulation = Simulation(make_schedule())
    simulation.apply(plan_pause(simulation.schedule), START)
    with pytest.raises(Conflict):
        plan_pause(simulation.schedule)
    simulation.apply(plan_resume(simulation.schedule, START + 2 * HOUR), START + 2 * HOUR)
    simulation.tick(START + 3 * HOUR)
    assert list(simulation.runs.values()) == ["paused", "paused", "done"]
    with pytest.raises(Conflict):
        plan_resume(simulation.schedule, START)


def test_a_moment_that_passed_during_a_pause_ends_the_schedule() -> None:
    simulation = Simulation(make_schedule(Once(START + HOUR)))
    simulation.apply(plan_pause(simulation.schedule), START)
    simulation.apply(plan_resume(simulation.schedule, START + 2 * HOUR), START + 2 * HOUR)
    assert simulation.schedule.state == "ended"
    assert list(simulation.runs.values()) == ["paused"]


def test_a_manual_run_does_not_change_the_next_time_and_needs_the_agent() -> None:
    schedule = make_schedule()
    change = plan_manual_run(schedule, START + MINUTE, "")
    assert change.next_due == schedule.next_due and change.runs[0].state == "running"
    with pytest.raises(Conflict, match=STOPPED):
        plan_manual_run(schedule, START + MINUTE, STOPPED)
    running = replace(schedule, open_runs=(OpenRun("run_1", START, "running"),))
    with pytest.raises(Conflict, match="wait for its end"):
        plan_manual_run(running, START + MINUTE, "")


def test_jitter_delays_a_start_by_a_fixed_amount() -> None:
    schedule = make_schedule(jitter=30 * MINUTE)
    due = START + HOUR
    start = start_time(schedule, due)
    assert due < start < due + 30 * MINUTE
    assert start == start_time(schedule, due)
    assert plan(schedule, start - timedelta(microseconds=1), "") is None
    assert states(plan(schedule, start, "")) == [(1, "running")]
    assert start_time(replace(schedule, timing=Once(due)), due) == due


def test_a_clock_that_is_set_forward_and_back_loses_and_repeats_nothing() -> None:
    simulation = Simulation(make_schedule())
    simulation.tick(START + HOUR)
    simulation.tick(START + 5 * HOUR)  # the clock is four hours fast
    for minutes in range(90, 8 * 60, 10):  # and set back
        simulation.tick(START + minutes * MINUTE)
    assert len(simulation.started) == len(set(simulation.started))
    assert sorted(simulation.runs) == [START + hour * HOUR for hour in range(1, 8)]
    assert simulation.runs[START + 6 * HOUR] == simulation.runs[START + 7 * HOUR] == "done"


def test_a_far_wrong_clock_does_not_stop_a_schedule() -> None:
    simulation = Simulation(make_schedule())
    simulation.tick(START + timedelta(days=3_000))
    simulation.tick(START + HOUR + MINUTE)
    simulation.tick(START + 2 * HOUR)
    assert simulation.runs[START + 2 * HOUR] == "done"


@pytest.mark.parametrize("catch_up", ["once", "skip", "all"])
def test_in_a_year_of_two_zones_each_due_time_gets_exactly_one_state(catch_up: CatchUp) -> None:
    dice = random.Random(2026)
    for zone, hour in (("Europe/Berlin", 2), ("America/New_York", 1)):
        timing = Cron(f"30 {hour} * * *", zone)
        simulation = Simulation(make_schedule(timing, catch_up=catch_up))
        now, end = START, START + timedelta(days=365)
        while now < end:
            blocked = STOPPED if dice.random() < 0.2 else ""
            simulation.tick(now, blocked)
            now += dice.choice([7 * MINUTE, HOUR, 5 * HOUR, timedelta(days=4)])
            if dice.random() < 0.02:
                simulation.tick(now - dice.random() * timedelta(days=2))  # a clock that is set
        simulation.tick(end)
        assert "due" not in simulation.runs.values()
        days = [due.astimezone(ZoneInfo(zone)).date() for due in sorted(simulation.runs)]
        assert days == [days[0] + timedelta(n) for n in range(365)]
        assert len(simulation.started) == len(set(simulation.started))
        if catch_up == "all":
            assert set(simulation.runs.values()) == {"done"}
