"""How long memory keeps what: which day a cutoff falls on."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from choir_common.wire.memory_config import RetentionConfig
from choir_memory.documents.model import Grain
from choir_memory.summaries.periods import (
    GRAINS,
    coarser_period,
    first_day,
    period_of,
    period_range,
)
from choir_memory.summaries.retention_cutoffs import retention_cutoffs

NOW = datetime(2026, 11, 20, 15, 30, tzinfo=UTC)
FIELDS: dict[Grain, str] = {
    "day": "days",
    "week": "weeks",
    "month": "months",
    "quarter": "quarters",
    "year": "years",
}


def test_without_limits_nothing_ever_goes() -> None:
    assert list(retention_cutoffs(RetentionConfig(), NOW)) == []


@pytest.mark.parametrize(
    ("kept", "of", "before"),
    [
        ({"turns": 2}, "turn", "2026-11-18"),
        ({"days": 30}, "day", "2026-10-19"),  # 21 October is in the week of the 19th
        ({"weeks": 42}, "week", "2026-09-28"),  # October begins with the week of its first Thursday
        ({"months": 180}, "month", "2026-04-01"),
        ({"quarters": 400}, "quarter", "2025-01-01"),
        ({"years": 730}, "year", "2024-01-01"),
    ],
)
def test_a_cutoff_falls_where_whole_coarser_periods_end(
    kept: dict[str, int], of: str, before: str
) -> None:
    (cutoff,) = retention_cutoffs(RetentionConfig.model_validate(kept), NOW)
    assert (cutoff.of, cutoff.before.date().isoformat()) == (of, before)


@given(
    st.integers(946_684_800, 3_786_912_000).map(lambda at: datetime.fromtimestamp(at, UTC)),
    st.sampled_from(GRAINS[:-1]),
    st.integers(366, 2_000),
    st.integers(-40, 40),
)
def test_the_parts_of_one_period_go_together_and_none_too_early(
    now: datetime, grain: Grain, days: int, offset: int
) -> None:
    (cutoff,) = retention_cutoffs(RetentionConfig.model_validate({FIELDS[grain]: days}), now)
    assert cutoff.before <= now - timedelta(days=days)

    def goes(period: str) -> bool:
        return period_range(grain, period)[1] <= cutoff.before

    near = cutoff.before.date() + timedelta(days=offset)
    part = period_of(grain, near)
    whole = coarser_period(grain, part)
    first: date = first_day(GRAINS[GRAINS.index(grain) + 1], whole)
    parts = {
        name
        for day in range(-7, 373)
        if coarser_period(grain, name := period_of(grain, first + timedelta(days=day))) == whole
    }
    assert len({goes(name) for name in parts}) == 1


# hours of turns, days, weeks, months, quarters, years
PLANS = {
    "free": (48, 30, 6, 6, 4, 2),
    "starter": (120, 60, 12, 12, 8, 4),
    "pro": (240, 120, 24, 24, 16, 8),
}


def months_before(now: datetime, months: int) -> datetime:
    """Return the same day of an earlier month, or its last day if that month is shorter."""
    year, month = divmod(now.year * 12 + now.month - 1 - months, 12)
    following = date(year + (month == 11), (month + 1) % 12 + 1, 1)
    last = (following - timedelta(days=1)).day
    return now.replace(year=year, month=month + 1, day=min(now.day, last))


@given(
    st.integers(1_577_836_800, 3_786_912_000).map(lambda at: datetime.fromtimestamp(at, UTC)),
    st.sampled_from(sorted(PLANS)),
)
@example(datetime(2026, 12, 31, 12, tzinfo=UTC), "free")
def test_a_plan_keeps_everything_for_its_time_and_at_most_one_coarser_period_longer(
    now: datetime, plan: str
) -> None:
    hours, days, weeks, months, quarters, years = PLANS[plan]
    kept_since = {
        "turn": now - timedelta(hours=hours),
        "day": now - timedelta(days=days),
        "week": now - timedelta(weeks=weeks),
        "month": months_before(now, months),
        "quarter": months_before(now, 3 * quarters),
        "year": months_before(now, 12 * years),
    }
    longest = {"turn": 1, "day": 7, "week": 35, "month": 95, "quarter": 368, "year": 368}
    cutoffs = list(retention_cutoffs(RetentionConfig.model_validate({"plan": plan}), now))
    assert [cutoff.of for cutoff in cutoffs] == list(kept_since)
    for cutoff in cutoffs:
        late = kept_since[cutoff.of] - cutoff.before
        assert timedelta(0) <= late <= timedelta(days=longest[cutoff.of]), cutoff.of


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_sets_what_is_not_set(plan: str) -> None:
    alone = RetentionConfig.model_validate({"plan": plan})
    own = alone.model_copy(update={"turns": 400, "log": 9})
    before, after = (
        {cutoff.of: cutoff.before for cutoff in retention_cutoffs(limits, NOW)}
        for limits in (alone, own)
    )
    assert after == {**before, "turn": datetime(2025, 10, 16, tzinfo=UTC)}
    assert (own.with_plan().log, own.with_plan().vectors) == (9, None)
