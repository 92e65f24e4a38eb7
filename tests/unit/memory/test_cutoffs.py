"""How long memory keeps what: which day a cutoff falls on."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
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


@pytest.mark.parametrize(
    ("plan", "days"),
    [
        ("free", (2, 30, 42, 183, 366, 731)),
        ("starter", (5, 60, 84, 366, 731, 1_461)),
        ("pro", (10, 120, 168, 731, 1_461, 2_922)),
    ],
)
def test_a_plan_sets_what_is_not_set(plan: str, days: tuple[int, ...]) -> None:
    fields = ("turns", "days", "weeks", "months", "quarters", "years")
    alone = RetentionConfig.model_validate({"plan": plan})
    written_out = RetentionConfig.model_validate(dict(zip(fields, days, strict=True)))
    assert list(retention_cutoffs(alone, NOW)) == list(retention_cutoffs(written_out, NOW))
    own = alone.model_copy(update={"turns": 400, "log": 9}).with_plan()
    assert (own.turns, own.days, own.log, own.vectors) == (400, days[1], 9, None)
