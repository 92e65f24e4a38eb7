"""The periods of budgets: days and months of a time zone. Pure."""

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

from choir_common.wire.money import MoneyBudget


@dataclass(frozen=True, slots=True)
class Period:
    """A half-open interval of time, in UTC."""

    start: datetime
    end: datetime


def period_of(budget: MoneyBudget, now: datetime, zone: str) -> Period | None:
    """Return the day or month of a budget that contains `now`; None for a budget without a period."""
    zone_info = ZoneInfo(zone)
    today = now.astimezone(zone_info).date()
    if budget.endswith("_per_day"):
        first, following = today, today + timedelta(days=1)
    elif budget.endswith("_per_month"):
        first = today.replace(day=1)
        following = (first + timedelta(days=31)).replace(day=1)
    else:
        return None
    start, end = (datetime.combine(day, time(), zone_info) for day in (first, following))
    return Period(start.astimezone(UTC), end.astimezone(UTC))
