"""A schedule and its runs as stored, and the changes of both."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from choir_common.wire.schedules import (
    CatchUp,
    Overlap,
    RunState,
    ScheduleKind,
    ScheduleState,
    TimingKind,
)
from choir_control.conversations.schedules.timing import Timing

AGENT = "agent "
"""Prefix of `Schedule.created_by` and `Schedule.text_by` if that is an agent."""
CHOIR = "choir"
"""`Schedule.created_by` of the schedules that `agents.NAME.wake_ups` makes."""


@dataclass(frozen=True, slots=True)
class OpenRun:
    """A run that waits (`due`) or is running."""

    run_id: str
    due_at: datetime
    state: RunState


@dataclass(frozen=True, slots=True)
class ScheduleRules:
    """What a schedule does with late, overlapping and failing runs."""

    catch_up: CatchUp
    grace: timedelta
    overlap: Overlap
    jitter: timedelta
    max_failures: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """A stored schedule with its open runs."""

    schedule_id: int
    revision: int
    """Grows with each change; a change applies only to the revision that it was made for."""
    agent_id: str
    dm: str
    kind: ScheduleKind
    text: str
    skill: str
    """The skill that a run runs, or empty."""
    timing_kind: TimingKind
    value: str
    """The timing as it was written; for `in` and `at`, the moment in UTC."""
    zone: str
    timing: Timing
    rules: ScheduleRules
    state: ScheduleState
    note: str
    failures: int
    """Consecutive failures."""
    failed_at: datetime | None
    next_due: datetime | None
    """The first due time that has no final run yet."""
    planned_at: datetime
    """The time, on control's clock, of the last change."""
    created_by: str
    text_by: str
    """Who wrote the present text."""
    words: str
    created_at: datetime
    open_runs: tuple[OpenRun, ...] = ()

    @property
    def is_running(self) -> bool:
        """Return whether a run is running."""
        return any(run.state == "running" for run in self.open_runs)

    @property
    def waiting(self) -> tuple[OpenRun, ...]:
        """Return the runs that wait for the end of an earlier one."""
        return tuple(
            run
            for run in self.open_runs
            if run.state == "due" and (self.next_due is None or run.due_at < self.next_due)
        )

    @property
    def needs_agent(self) -> bool:
        """Return whether a run can only start while the agent runs."""
        return self.kind != "remind"

    @property
    def starts_job(self) -> bool:
        """Return whether a run starts a core job, whose end is the run's end."""
        return self.kind in ("job", "skill")

    @property
    def is_wake_up(self) -> bool:
        """Return whether Choir created it by the configuration of an agent's wake-ups."""
        return self.created_by == CHOIR

    @property
    def is_by_agent(self) -> bool:
        """Return whether an agent wrote the words of the schedule."""
        return self.text_by.startswith(AGENT)


@dataclass(frozen=True, slots=True)
class RunChange:
    """A new run, or a new state of a waiting one. A run with the state `running` starts."""

    due_at: datetime
    state: RunState
    detail: str = ""
    run_id: str | None = None
    """None: a new id."""
    is_late: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleChange:
    """The next state of a schedule, and the changes of its runs."""

    state: ScheduleState
    next_due: datetime | None
    start_at: datetime | None
    """When to plan again: `next_due` plus its jitter."""
    runs: tuple[RunChange, ...] = ()
    notice: str = ""
    """A message to the conversation."""
    note: str = ""
    failures: int | None = None
    """None: unchanged."""
    is_manual: bool = False


@dataclass(frozen=True, slots=True)
class EditedSchedule:
    """A schedule with new values, to be stored if its revision has not changed."""

    schedule: Schedule
    start_at: datetime | None
    """When its next run starts."""
    skipped: tuple[OpenRun, ...] = ()
    """Waiting runs that its new time replaces."""


@dataclass(frozen=True, slots=True)
class ScheduleDraft:
    """A schedule to be stored."""

    agent_id: str
    dm: str
    kind: ScheduleKind
    text: str
    timing_kind: TimingKind
    value: str
    zone: str
    timing: Timing
    rules: ScheduleRules
    created_by: str
    words: str
    skill: str = ""
    request_key: str | None = None
    """A second draft with the same key creates nothing."""
    paused: bool = False
