"""Due times of schedules: moments, intervals and cron expressions, across changes of the clocks."""

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from choir_common.errors import InvalidRequest
from choir_control.conversations.schedules.timing import (
    MAX_LISTED,
    Cron,
    Interval,
    Once,
    Timing,
    due_until,
    next_due,
    parse_duration,
    parse_timing,
    shortest_gap,
)

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
NOW = datetime(2026, 11, 23, 7, 30, tzinfo=UTC)


def local(text: str, zone: str = BERLIN, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).astimezone(UTC)


def following(timing: Timing, after: datetime, count: int) -> list[datetime]:
    """Return the next due times one by one, as the worker asks for them."""
    times: list[datetime] = []
    for _ in range(count):
        due = next_due(timing, times[-1] if times else after)
        assert due is not None
        times.append(due)
    return times


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h30m", 5400), ("1d", 86400), ("1w", 604800), ("2 H", 7200)],
)
def test_a_duration_is_read(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "m", "1m1h", "-5m", "1.5h", "soon", "9" * 30 + "w", "99999d"]
)
def test_another_text_is_no_duration(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_duration(text)


def test_a_time_of_day_is_the_next_one_in_its_zone() -> None:
    assert parse_timing("at", "09:00", BERLIN, NOW) == Once(local("2026-11-23T09:00"))
    assert parse_timing("at", "08:00", BERLIN, NOW) == Once(local("2026-11-24T08:00"))
    with_offset = parse_timing("at", "2026-12-24T18:00+03:00", BERLIN, NOW)
    assert with_offset == Once(datetime(2026, 12, 24, 15, tzinfo=UTC))


def test_a_moment_in_a_skipped_hour_is_read_with_the_earlier_offset_and_the_first_of_two_counts() -> (
    None
):
    winter = datetime(2026, 1, 1, tzinfo=UTC)
    skipped = parse_timing("at", "2026-03-29 02:30", BERLIN, winter)
    assert skipped == Once(local("2026-03-29T03:30"))
    repeated = parse_timing("at", "2026-10-25 02:30", BERLIN, winter)
    assert repeated == Once(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("at", "2026-11-23 08:00", "has passed"),
        ("at", "25:00", "not a time"),
        ("at", "2999-01-01", "ten years"),
        ("at", "tomorrow", "not a time"),
        ("every", "59s", "one minute"),
        ("cron", "* * * *", "five fields"),
        ("cron", "61 * * * *", "invalid"),
        ("cron", "0 0 31 2 *", "invalid"),
    ],
)
def test_a_time_that_cannot_be_meant_is_refused_with_what_is_wrong(
    kind: str, value: str, words: str
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        parse_timing(kind, value, BERLIN, NOW)  # type: ignore[arg-type]


def test_a_cron_job_in_a_skipped_hour_is_due_right_after_it_and_once_in_a_repeated_one() -> None:
    daily = Cron("30 2 * * *", BERLIN)
    assert following(daily, local("2026-03-28T02:30"), 2) == [
        local("2026-03-29T03:00"),
        local("2026-03-30T02:30"),
    ]
    assert following(daily, local("2026-10-24T02:30"), 2) == [
        local("2026-10-25T02:30", fold=0),
        local("2026-10-26T02:30"),
    ]
    # asked in the second pass of the hour, the first pass does not come again
    second_pass = local("2026-10-25T02:10", fold=1)
    assert next_due(daily, second_pass) == local("2026-10-26T02:30")


def test_a_cron_job_with_a_star_follows_the_clock() -> None:
    often = Cron("*/30 * * * *", BERLIN)
    times = following(often, local("2026-10-25T01:45"), 6)
    assert [b - a for a, b in itertools.pairwise(times)] == [timedelta(minutes=30)] * 5
    in_skipped_hour = Cron("*/30 2 * * *", BERLIN)
    assert next_due(in_skipped_hour, local("2026-03-29T00:00")) == local("2026-03-30T02:00")


def test_an_interval_is_elapsed_time_and_keeps_its_phase() -> None:
    start = local("2026-03-28T12:00")
    daily = Interval(start, timedelta(days=1))
    assert following(daily, start, 2) == [start + timedelta(days=1), start + timedelta(days=2)]
    assert next_due(daily, start + timedelta(days=3, seconds=1)) == start + timedelta(days=4)
    assert next_due(daily, start - timedelta(days=9)) == start + timedelta(days=1)


def test_due_times_until_now_are_listed_and_very_many_are_summed_up() -> None:
    minutely = Interval(NOW, timedelta(minutes=1))
    first = NOW + timedelta(minutes=1)
    few = due_until(minutely, first, NOW + timedelta(minutes=3))
    assert few.times == tuple(NOW + timedelta(minutes=n) for n in (1, 2, 3))
    assert few.since is None
    for timing in (minutely, Cron("* * * * *", BERLIN)):
        many = due_until(timing, first, NOW + timedelta(days=300, seconds=30))
        assert many.since == first
        assert len(many.times) == MAX_LISTED
        assert many.times[-1] == NOW + timedelta(days=300)
    assert due_until(minutely, first, NOW).times == ()
    assert due_until(Once(NOW), NOW, NOW).times == (NOW,)


def test_after_a_very_wrong_clock_rare_due_times_are_listed_too() -> None:
    monthly = Cron("0 0 1 * *", BERLIN)
    first = local("2027-01-01T00:00")
    many = due_until(monthly, first, first + timedelta(days=11 * 366))
    assert (many.since, len(many.times)) == (first, MAX_LISTED)
    assert many.times[-1] == local("2038-01-01T00:00")


@pytest.mark.parametrize(
    ("timing", "gap"),
    [
        (Interval(NOW, timedelta(minutes=50)), timedelta(minutes=50)),
        (Cron("0 * * * *", BERLIN), timedelta(hours=1)),
        (Cron("0,59 8 * * *", BERLIN), timedelta(minutes=59)),
        (Cron("15,30 0 1 1 *", BERLIN), timedelta(minutes=15)),
        (Cron("30 8 * * *", BERLIN), timedelta(days=1)),
        (Once(NOW + timedelta(hours=1)), None),
    ],
)
def test_the_shortest_time_between_two_runs_is_known(timing: Timing, gap: timedelta | None) -> None:
    assert shortest_gap(timing, NOW) == gap


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, "Australia/Lord_Howe"])
def test_a_daily_job_runs_once_on_each_day_of_a_year_at_its_time(zone: str) -> None:
    zone_info = ZoneInfo(zone)
    for hour, minute in ((2, 30), (1, 15), (8, 0)):
        start = datetime(2026, 1, 1, tzinfo=zone_info).astimezone(UTC)
        times = following(Cron(f"{minute} {hour} * * *", zone), start, 365)
        locals_ = [due.astimezone(zone_info) for due in times]
        assert [due.date() for due in locals_] == [
            date(2026, 1, 1) + timedelta(n) for n in range(365)
        ]
        moved = [due for due in locals_ if (due.hour, due.minute) != (hour, minute)]
        # at most on the day on which this time does not exist
        assert len(moved) <= 1
        for due in moved:
            before = due.replace(hour=hour, minute=minute, fold=0)
            assert before.astimezone(UTC).astimezone(zone_info) != before
