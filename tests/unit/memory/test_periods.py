"""The names and bounds of periods."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_memory.documents.model import Grain
from choir_memory.summaries.periods import (
    GRAINS,
    coarser_period,
    finer_grain,
    first_day,
    is_over,
    period_of,
    period_range,
)

DAYS = st.dates(date(1990, 1, 1), date(2100, 12, 31))


def test_periods_are_written_as_people_write_them() -> None:
    names = [period_of(grain, date(2024, 1, 15)) for grain in GRAINS]
    assert names == ["2024-01-15", "2024-W03", "2024-01", "2024-Q1", "2024"]


@pytest.mark.parametrize(
    ("day", "week"),
    [
        (date(2024, 12, 30), "2025-W01"),
        (date(2021, 1, 3), "2020-W53"),
        (date(2026, 12, 31), "2026-W53"),
    ],
)
def test_a_week_belongs_to_the_iso_year_of_its_thursday(day: date, week: str) -> None:
    assert period_of("week", day) == week


def test_a_week_across_a_border_counts_once_to_where_its_thursday_lies() -> None:
    assert coarser_period("week", "2025-W01") == "2025-01"  # 30 December to 5 January
    assert coarser_period("week", "2020-W53") == "2020-12"  # 28 December to 3 January
    assert coarser_period("quarter", "2024-Q4") == "2024"


@given(DAYS, st.sampled_from(GRAINS))
def test_a_day_lies_within_the_span_of_its_period(day: date, grain: Grain) -> None:
    period = period_of(grain, day)
    start, end = period_range(grain, period)
    at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
    assert start <= at < end
    assert period_of(grain, first_day(grain, period)) == period
    # the next period begins where this one ends
    assert period_of(grain, end.date()) != period
    assert period_range(grain, period_of(grain, end.date()))[0] == end


@given(DAYS, st.sampled_from(GRAINS[1:]))
def test_a_period_is_over_only_when_all_that_counts_to_it_is(day: date, grain: Grain) -> None:
    made_of = finer_grain(grain)
    assert made_of is not None
    part = period_of(made_of, day)
    whole = coarser_period(made_of, part)
    end_of_part = period_range(made_of, part)[1]
    assert not is_over(grain, whole, end_of_part - timedelta(seconds=1))
    assert is_over(grain, whole, period_range(grain, whole)[1] + timedelta(days=3))


@pytest.mark.parametrize(
    ("grain", "no_period"), [("quarter", "2024-Q5"), ("day", "2024-13-01"), ("week", "2024-03")]
)
def test_what_is_no_period_is_refused(grain: Grain, no_period: str) -> None:
    with pytest.raises(ValueError):
        period_range(grain, no_period)
