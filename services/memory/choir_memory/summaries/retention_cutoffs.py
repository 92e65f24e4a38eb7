"""Compute retention cutoffs: pure.

Consolidation uses them to skip periods that retention would delete at once. A finer grain is deleted by
whole periods of the coarser one, so that no summary is written again from a part of its sources.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from choir_common.wire.memory_config import RetentionConfig
from choir_memory.documents.model import Grain
from choir_memory.summaries.periods import (
    GRAINS,
    coarser_period,
    first_day,
    period_of,
    period_range,
)

RetainedGrain = Grain | Literal["turn"]


@dataclass(frozen=True, slots=True)
class RetentionCutoff:
    """A retention limit: rows of the grain `of` that ended before `before` are deleted."""

    of: RetainedGrain
    before: datetime


def retention_cutoffs(retention: RetentionConfig, now: datetime) -> Iterator[RetentionCutoff]:
    """Yield the cutoffs at `now`, from fine to coarse; grains without a limit have none."""
    limits = retention.with_plan()
    ages: tuple[tuple[RetainedGrain, int | None], ...] = (
        ("turn", limits.turns),
        ("day", limits.days),
        ("week", limits.weeks),
        ("month", limits.months),
        ("quarter", limits.quarters),
        ("year", limits.years),
    )
    for of, days in ages:
        if days is not None:
            yield RetentionCutoff(of, _floor(of, now - timedelta(days=days)))


def vector_cutoff(retention: RetentionConfig, now: datetime) -> datetime | None:
    """Return the time before which turns lose their vectors, by whole days; None if they never do."""
    return (
        None
        if retention.vectors is None
        else _floor("turn", now - timedelta(days=retention.vectors))
    )


def is_retained(
    grain: Grain,
    period: str,
    cutoffs: Mapping[RetainedGrain, datetime],
    existing: Container[tuple[Grain, str]],
) -> bool:
    """Return whether a summary would be kept, or is needed for a coarser one that does not exist yet."""
    before = cutoffs.get(grain)
    if before is None or period_range(grain, period)[1] > before:
        return True
    if grain == GRAINS[-1]:
        return False
    coarser: Grain = GRAINS[GRAINS.index(grain) + 1]
    coarser_name = coarser_period(grain, period)
    return (coarser, coarser_name) not in existing and is_retained(
        coarser, coarser_name, cutoffs, existing
    )


def _floor(of: RetainedGrain, at: datetime) -> datetime:
    """Return the latest time up to `at` that is a boundary of the coarser grain."""
    if of == "turn":
        return period_range("day", period_of("day", at.date()))[0]
    if of == "year":
        return period_range("year", period_of("year", at.date()))[0]
    coarser: Grain = GRAINS[GRAINS.index(of) + 1]
    if of != "week":
        return period_range(coarser, period_of(coarser, at.date()))[0]
    # the month of this week is not old enough yet; it starts with the first week that belongs to it
    month = coarser_period("week", period_of("week", at.date()))
    first = period_range("week", period_of("week", first_day("month", month)))
    return (
        first[0]
        if coarser_period("week", period_of("week", first[0].date())) == month
        else first[1]
    )
