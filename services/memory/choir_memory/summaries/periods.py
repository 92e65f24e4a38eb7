"""Names and ranges of periods: pure.

Days are in UTC. Weeks are ISO weeks; a week belongs to the month and year of its Thursday.
"""

import re
from datetime import UTC, date, datetime, time, timedelta

from choir_memory.documents.model import Grain

GRAINS: tuple[Grain, ...] = ("day", "week", "month", "quarter", "year")
"""From fine to coarse; each but the first is made of the one before it."""

_QUARTER = re.compile(r"(\d{4})-Q([1-4])")
_THURSDAY = timedelta(days=3)
_MONTHS_OF_QUARTER = 3
_MONTHS_OF_YEAR = 12


def finer_grain(grain: Grain) -> Grain | None:
    """Return the grain that this one is made of; None for days, which are made of turns."""
    place = GRAINS.index(grain)
    return GRAINS[place - 1] if place else None


def period_of(grain: Grain, day: date) -> str:
    """Return the period of a day: 2024-01-15, 2024-W03, 2024-01, 2024-Q1 or 2024."""
    match grain:
        case "day":
            return day.isoformat()
        case "week":
            year, week, _ = day.isocalendar()
            return f"{year}-W{week:02d}"
        case "month":
            return f"{day.year}-{day.month:02d}"
        case "quarter":
            return f"{day.year}-Q{(day.month - 1) // _MONTHS_OF_QUARTER + 1}"
        case "year":
            return str(day.year)


def coarser_period(grain: Grain, period: str) -> str:
    """Return the period of the next coarser grain that `period` belongs to."""
    coarser = GRAINS[GRAINS.index(grain) + 1]
    start = first_day(grain, period)
    return period_of(coarser, start + _THURSDAY if grain == "week" else start)


def period_range(grain: Grain, period: str) -> tuple[datetime, datetime]:
    """Return the start of a period and of the next one; raises ValueError for an invalid period."""
    start = first_day(grain, period)
    return _midnight(start), _midnight(_next(grain, start))


def is_over(grain: Grain, period: str, now: datetime) -> bool:
    """Return whether everything that belongs to a period is in the past.

    The last week of a month may end in the next month, and belongs to the month of its Thursday.
    """
    end = period_range(grain, period)[1]
    spill = _THURSDAY if grain in ("month", "quarter", "year") else timedelta()
    return end + spill <= now


def first_day(grain: Grain, period: str) -> date:
    """Return the first day of a period; raises ValueError for an invalid one."""
    match grain:
        case "day":
            return date.fromisoformat(period)
        case "week":
            return datetime.strptime(f"{period}-1", "%G-W%V-%u").replace(tzinfo=UTC).date()
        case "month":
            return date.fromisoformat(f"{period}-01")
        case "quarter":
            quarter = _QUARTER.fullmatch(period)
            if quarter is None:
                raise ValueError(f"{period} is no quarter")
            return date(int(quarter[1]), (int(quarter[2]) - 1) * _MONTHS_OF_QUARTER + 1, 1)
        case "year":
            return date(int(period), 1, 1)


def _next(grain: Grain, start: date) -> date:
    match grain:
        case "day":
            return start + timedelta(days=1)
        case "week":
            return start + timedelta(days=7)
        case "month":
            return _months_after(start, 1)
        case "quarter":
            return _months_after(start, _MONTHS_OF_QUARTER)
        case "year":
            return date(start.year + 1, 1, 1)


def _months_after(start: date, months: int) -> date:
    years, month = divmod(start.month - 1 + months, _MONTHS_OF_YEAR)
    return date(start.year + years, month + 1, 1)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
