"""An agent's memory in config.json: how long it keeps what, and what its reminders may contain."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from choir_common.wire.memory_search import Label
from choir_common.wire.model import JsonObject, WireModel


class ReminderConfig(WireModel):
    """Which memories are added to a user's messages without a request; default: all that are relevant."""

    scopes: tuple[Label, ...] = Field(default=(), max_length=20)
    """Only memories with one of these as `scope` in their metadata, and those without a scope."""
    tags: JsonObject = Field(default_factory=dict)
    """Entries that the metadata of a memory must contain; the user's preferences need none."""


MemoryBetweenPeople = Literal["separate", "shared"]
"""`separate`: people do not find what others said; conversations of one person always share memory."""
RetentionPlan = Literal["free", "starter", "pro"]
_LIMITS = ("turns", "days", "weeks", "months", "quarters", "years")
RETENTION_PLANS: Mapping[RetentionPlan, Mapping[str, int]] = {
    # 48 hours, 30 days, 6 weeks, 6 months, 4 quarters, 2 years
    "free": dict(zip(_LIMITS, (2, 30, 42, 184, 366, 731), strict=True)),
    # 120 hours, 60 days, 12 weeks, 12 months, 8 quarters, 4 years
    "starter": dict(zip(_LIMITS, (5, 60, 84, 366, 731, 1_461), strict=True)),
    # 240 hours, 120 days, 24 weeks, 24 months, 16 quarters, 8 years
    "pro": dict(zip(_LIMITS, (10, 120, 168, 731, 1_461, 2_922), strict=True)),
}
"""Days that each plan keeps turns and summaries: for months, quarters and years the most they can have."""


class RetentionConfig(WireModel):
    """Days to keep an agent's data; null: the plan's value, or no limit. Summaries outlive their sources."""

    plan: RetentionPlan | None = None
    """Named limits for turns and summaries; the values below override it. `free` keeps messages for 2 days
    and yearly summaries for 2 years, `starter` 5 days and 4 years, `pro` 10 days and 8 years."""
    log: int | None = Field(default=None, ge=1)
    """Logs of ended sessions with their messages. Memory keeps its own copy; the hashes stay."""
    turns: int | None = Field(default=None, ge=1)
    """Full text of messages and tool calls in memory; the summaries of sessions and days stay."""
    vectors: int | None = Field(default=None, ge=1)
    """Vectors of messages and tool calls; without them only text search finds these."""
    days: int | None = Field(default=None, ge=7)
    """Daily summaries; deleted by the week, once the whole week is old enough."""
    weeks: int | None = Field(default=None, ge=31)
    """Weekly summaries; deleted by the month."""
    months: int | None = Field(default=None, ge=92)
    """Monthly summaries; deleted by the quarter."""
    quarters: int | None = Field(default=None, ge=366)
    """Quarterly summaries; deleted by the year."""
    years: int | None = Field(default=None, ge=366)
    """Yearly summaries."""

    def with_plan(self) -> "RetentionConfig":
        """Return the limits with the plan's values where none is set."""
        if self.plan is None:
            return self
        plan = {
            name: days
            for name, days in RETENTION_PLANS[self.plan].items()
            if getattr(self, name) is None
        }
        return self.model_copy(update=plan)
