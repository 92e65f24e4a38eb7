"""A simulated year in two zones: around each change of the clocks every run starts once, at its own time."""

import functools
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest

from choir_control.conversations.schedules.timing import Cron, Interval, Once, Timing
from tests.unit.control.test_schedule_planning import HOUR, MINUTE, Simulation, make_schedule

START = datetime(2026, 1, 1, tzinfo=UTC)
END = START + timedelta(days=365)
ZONES = ("Europe/Berlin", "America/New_York")
NEAR = timedelta(hours=12)
LOOK_EACH = 15 * MINUTE
HALF_HOUR = 30 * MINUTE


@functools.cache
def changes(zone: str) -> list[datetime]:
    """Return when the offset of a zone changes in the year."""
    zone_info = ZoneInfo(zone)
    hours = [START + n * HOUR for n in range(365 * 24 + 1)]
    offsets = [hour.astimezone(zone_info).utcoffset() for hour in hours]
    return [hours[n] for n in range(1, len(hours)) if offsets[n] != offsets[n - 1]]


def looks(zone: str) -> list[datetime]:
    """Return when the worker looks: each quarter of an hour near a change, and each day else."""
    near = [change - NEAR + n * LOOK_EACH for change in changes(zone) for n in range(97)]
    return sorted({*near, *each(24 * HOUR)})


def daily(zone: str, hour: int) -> list[datetime]:
    """Return half past an hour of each day; if that does not exist, the moment after the skipped hour."""
    zone_info, times = ZoneInfo(zone), []
    first = START.astimezone(zone_info).date()
    for number in range(367):
        wall = datetime.combine(first + timedelta(number), time(hour, 30), zone_info)
        at = wall.astimezone(UTC)
        if at.astimezone(zone_info).replace(tzinfo=None) != wall.replace(tzinfo=None):
            at = next(change for change in changes(zone) if change <= at < change + HOUR)
        times.append(at)
    return [at for at in times if START < at <= END]


def each(step: timedelta, first: datetime = START, end: datetime = END) -> list[datetime]:
    """Return the moments after `first`, each a duration after the one before."""
    return [first + n * step for n in range(1, (end - first) // step + 1)]


def cases() -> list[tuple[str, Timing, list[datetime]]]:
    found: list[tuple[str, Timing, list[datetime]]] = []
    for zone in ZONES:
        found += [(zone, Cron(f"30 {hour} * * *", zone), daily(zone, hour)) for hour in (1, 2)]
        found.append((zone, Interval(START, 24 * HOUR), each(24 * HOUR)))
        for change in changes(zone):
            first, end = change - NEAR, change + NEAR
            found += [
                (zone, Cron("*/30 * * * *", zone), each(HALF_HOUR, first, end)),
                (zone, Cron("0 * * * *", zone), each(HOUR, first, end)),
                (zone, Once(change), [change]),
            ]
    return found


def test_the_year_has_both_changes_of_each_zone() -> None:
    assert [change.isoformat() for zone in ZONES for change in changes(zone)] == [
        "2026-03-29T01:00:00+00:00",
        "2026-10-25T01:00:00+00:00",
        "2026-03-08T07:00:00+00:00",
        "2026-11-01T06:00:00+00:00",
    ]


@pytest.mark.parametrize(("zone", "timing", "due"), cases())
def test_each_due_time_of_a_year_starts_once_and_on_time_near_the_changes(
    zone: str, timing: Timing, due: list[datetime]
) -> None:
    schedule = make_schedule(timing, catch_up="all", planned_at=START, next_due=due[0])
    simulation = Simulation(schedule)
    started_at: dict[datetime, datetime] = {}
    for now in (
        look for look in looks(zone) if look <= due[-1] + 24 * HOUR and len(started_at) < len(due)
    ):
        before = len(simulation.started)
        simulation.tick(now)
        started_at |= dict.fromkeys(simulation.started[before:], now)
    assert simulation.started == due
    assert set(simulation.runs.values()) == {"done"}
    for at in due:
        if any(abs(at - change) <= NEAR - HALF_HOUR for change in changes(zone)):
            assert started_at[at] - at < LOOK_EACH, at
