"""New text, time and rules of a schedule, and what they do to what is due."""

from dataclasses import replace
from datetime import timedelta

import pytest

from choir_common.errors import Conflict, InvalidRequest
from choir_common.wire.schedules import ScheduleEdit
from choir_control.conversations.schedules.editing import edit_schedule
from choir_control.conversations.schedules.planning import plan, start_time
from choir_control.conversations.schedules.records import OpenRun
from choir_control.conversations.schedules.timing import Cron, Interval, Once, next_due
from tests.unit.control.test_schedule_planning import HOUR, MINUTE, START, make_schedule

NOW = START + 30 * MINUTE
BERLIN = "Europe/Berlin"


def test_a_new_text_leaves_the_time_and_names_its_author() -> None:
    schedule = make_schedule(failures=2, words="look at the mail each hour")
    edit = ScheduleEdit(text="look at the news", words="the news instead")
    edited = edit_schedule(schedule, edit, by="agent main", now=NOW)
    assert edited.schedule == replace(
        schedule,
        text="look at the news",
        text_by="agent main",
        words="look at the mail each hour\nthe news instead",
    )
    assert (edited.start_at, edited.skipped) == (schedule.next_due, ())
    assert edited.schedule.is_by_agent and not schedule.is_by_agent


@pytest.mark.parametrize(
    ("edit", "timing", "value", "due"),
    [
        (ScheduleEdit(value="2h"), Interval(NOW, 2 * HOUR), "2h", NOW + 2 * HOUR),
        (
            ScheduleEdit(timing="in", value="5m"),
            Once(NOW + 5 * MINUTE),
            "2026-01-01T00:35:00+00:00",
            NOW + 5 * MINUTE,
        ),
        (
            ScheduleEdit(timing="cron", value=" 0 8 * * *", zone=BERLIN),
            Cron("0 8 * * *", BERLIN),
            "0 8 * * *",
            START + 7 * HOUR,
        ),
    ],
)
def test_a_new_time_begins_now(edit: ScheduleEdit, timing: object, value: str, due: object) -> None:
    edited = edit_schedule(make_schedule(), edit, by="operator", now=NOW)
    assert edited.schedule.timing == timing
    assert (edited.schedule.value, edited.schedule.next_due, edited.start_at) == (value, due, due)


def test_a_new_zone_moves_a_cron_job_and_no_interval() -> None:
    daily = make_schedule(Cron("0 8 * * *", "UTC"), value="0 8 * * *", timing_kind="cron")
    moved = edit_schedule(daily, ScheduleEdit(zone=BERLIN), by="operator", now=NOW)
    assert moved.schedule.next_due == START + 7 * HOUR
    assert moved.schedule.value == "0 8 * * *"
    hourly = make_schedule()
    same = edit_schedule(hourly, ScheduleEdit(zone=BERLIN), by="operator", now=NOW).schedule
    assert (same.zone, same.next_due, same.timing) == (BERLIN, hourly.next_due, hourly.timing)


def test_a_new_time_skips_runs_that_wait_and_keeps_those_that_run() -> None:
    running = OpenRun("run_1", START, "running")
    waiting = OpenRun("run_2", START + 10 * MINUTE, "due")
    schedule = make_schedule(open_runs=(running, waiting), note="waits: main is not running")
    edited = edit_schedule(schedule, ScheduleEdit(value="2h"), by="operator", now=NOW)
    assert (edited.skipped, edited.schedule.note) == ((waiting,), "")
    text_only = edit_schedule(schedule, ScheduleEdit(text="x"), by="operator", now=NOW)
    assert (text_only.skipped, text_only.schedule.note) == ((), schedule.note)


def test_rules_are_changed_one_by_one() -> None:
    schedule = make_schedule()
    edit = ScheduleEdit(catch_up="all", grace="1m", jitter="30m", max_failures=9)
    edited = edit_schedule(schedule, edit, by="operator", now=NOW)
    rules = edited.schedule.rules
    assert (rules.catch_up, rules.grace, rules.max_failures) == ("all", MINUTE, 9)
    assert (rules.overlap, rules.jitter) == (schedule.rules.overlap, 30 * MINUTE)
    assert schedule.next_due is not None
    assert edited.start_at == start_time(edited.schedule, schedule.next_due) != schedule.next_due
    assert edited.schedule.text_by == schedule.text_by


def test_a_paused_schedule_keeps_its_state_and_note() -> None:
    paused = make_schedule(state="paused", note="its runs failed")
    edited = edit_schedule(paused, ScheduleEdit(value="2h"), by="operator", now=NOW).schedule
    assert (edited.state, edited.note) == ("paused", "its runs failed")
    assert plan(replace(edited, state="active"), NOW + 2 * HOUR, "") is not None


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (ScheduleEdit(words="do something"), "Nothing is to be changed"),
        (ScheduleEdit(timing="cron"), "timing without value"),
        (ScheduleEdit(value="soon"), "not a duration"),
        (ScheduleEdit(timing="at", value="2025-12-31 08:00"), "has passed"),
        (ScheduleEdit(jitter="2h"), "at most one hour"),
    ],
)
def test_an_edit_that_cannot_work_is_refused(edit: ScheduleEdit, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        edit_schedule(make_schedule(), edit, by="operator", now=NOW)


def test_an_ended_schedule_cannot_be_changed() -> None:
    ended = make_schedule(Once(START), state="ended", next_due=None)
    with pytest.raises(Conflict, match="has ended"):
        edit_schedule(ended, ScheduleEdit(text="x"), by="operator", now=NOW)


def test_the_oldest_words_are_cut_off() -> None:
    schedule = make_schedule(words="a" * 3_999)
    edited = edit_schedule(
        schedule, ScheduleEdit(text="x", words="and so on"), by="dm console", now=NOW
    )
    assert len(edited.schedule.words) == 4_000 and edited.schedule.words.endswith("a\nand so on")


def test_edits_keep_due_times_in_the_future() -> None:
    now = NOW
    schedule = make_schedule()
    for minutes in (7, 90, 1_440):
        edited = edit_schedule(schedule, ScheduleEdit(value=f"{minutes}m"), by="operator", now=now)
        assert edited.schedule.next_due == next_due(edited.schedule.timing, now)
        assert edited.start_at == now + timedelta(minutes=minutes)
        now, schedule = now + MINUTE, edited.schedule
