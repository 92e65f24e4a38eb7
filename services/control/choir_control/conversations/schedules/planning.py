"""The rules for runs: what is started, missed, skipped or waits at a given time. Pure.

Each rule returns the change to store. A change applies to the revision of the schedule that it was made
for, so two plans for the same time never both apply.
"""

import hashlib
from dataclasses import replace
from datetime import datetime, timedelta

from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_control.conversations.schedules.records import (
    RunChange,
    Schedule,
    ScheduleChange,
    ScheduleDraft,
    ScheduleRules,
)
from choir_control.conversations.schedules.texts import (
    failing_text,
    format_moment,
    missed_text,
    waits_text,
)
from choir_control.conversations.schedules.timing import (
    DueTimes,
    Once,
    Timing,
    due_until,
    next_due,
)

CLOCK_TOLERANCE = timedelta(minutes=1)
"""A last change that lies further in the future than this means that the clock was set back."""
FIRST_BACKOFF = timedelta(minutes=1)
MAX_BACKOFF = timedelta(hours=6)
NOT_RUNNING = _("Choir or the agent was not running at this time")


def first_start(draft: ScheduleDraft, due_at: datetime, now: datetime) -> datetime:
    """Return when the first run of a schedule that is created at `now` starts."""
    return _with_jitter(draft.timing, draft.rules, due_at, now)


def start_time(schedule: Schedule, due_at: datetime) -> datetime:
    """Return a due time plus its jitter, which is the same at every calculation."""
    return _with_jitter(schedule.timing, schedule.rules, due_at, schedule.created_at)


def _with_jitter(
    timing: Timing, rules: ScheduleRules, due_at: datetime, created_at: datetime
) -> datetime:
    if not rules.jitter or isinstance(timing, Once):
        return due_at
    seed = f"{created_at.isoformat()} {due_at.isoformat()}".encode()
    share = int.from_bytes(hashlib.sha256(seed).digest()[:4]) / 2**32
    return due_at + rules.jitter * share


def backoff(failures: int) -> timedelta:
    """Return how long after a failure no run is started."""
    doubled: timedelta = FIRST_BACKOFF * (1 << min(failures - 1, 20))
    return min(MAX_BACKOFF, doubled)


def plan(schedule: Schedule, now: datetime, blocked: str) -> ScheduleChange | None:
    """Return the change of an active schedule at `now`, or None if there is nothing to change.

    `blocked` says why the agent cannot take up a run, or is empty.
    """
    if schedule.failures >= schedule.rules.max_failures:
        return _pause(schedule, _("its runs failed"), failing_text(schedule))
    if schedule.planned_at > now + CLOCK_TOLERANCE:
        return _plan_after_clock_change(schedule, now)
    due = _due(schedule, now)
    is_held = schedule.needs_agent and bool(blocked)
    if schedule.waiting and not schedule.is_running and not is_held:
        first = schedule.waiting[0]
        started = RunChange(first.due_at, "running", run_id=first.run_id)
        return replace(_following(schedule, schedule.next_due), runs=(started,))
    if not due.times:
        return None
    return _hold(schedule, blocked) if is_held else _plan_due(schedule, due, now)


def plan_pause(schedule: Schedule) -> ScheduleChange:
    """Return the change that pauses a schedule. Raises Conflict if it is not active."""
    if schedule.state != "active":
        raise Conflict(
            _("Schedule {schedule_id} is {state} already.").format(
                schedule_id=schedule.schedule_id, state=schedule.state
            )
        )
    return _pause(schedule, _("paused by a person"), "")


def plan_resume(schedule: Schedule, now: datetime) -> ScheduleChange:
    """Return the change that resumes a schedule; times that passed meanwhile get the state `paused`.

    Raises Conflict if it is not paused.
    """
    if schedule.state != "paused":
        raise Conflict(
            _("Schedule {schedule_id} is {state}, not paused.").format(
                schedule_id=schedule.schedule_id, state=schedule.state
            )
        )
    due = _due(schedule, now)
    passed = _unlisted(schedule, due, "paused")
    passed += tuple(RunChange(at, "paused", _("the schedule was paused")) for at in due.times)
    following = next_due(schedule.timing, due.times[-1]) if due.times else schedule.next_due
    return replace(_following(schedule, following), runs=passed, failures=0)


def plan_manual_run(schedule: Schedule, now: datetime, blocked: str) -> ScheduleChange:
    """Return the change that starts a run now. Raises Conflict if no run can start."""
    if schedule.needs_agent and blocked:
        raise Conflict(
            _("Schedule {schedule_id} cannot run: {blocked}.").format(
                schedule_id=schedule.schedule_id, blocked=blocked
            )
        )
    if schedule.is_running and schedule.rules.overlap != "allow":
        raise Conflict(
            _("A run of schedule {schedule_id} is running; wait for its end.").format(
                schedule_id=schedule.schedule_id
            )
        )
    return ScheduleChange(
        state=schedule.state,
        next_due=schedule.next_due,
        start_at=_start_at(schedule, schedule.next_due),
        runs=(RunChange(now, "running", _("started by a person")),),
        note=schedule.note,
        is_manual=True,
    )


def _due(schedule: Schedule, now: datetime) -> DueTimes:
    """Return the due times whose start is not after now."""
    if schedule.next_due is None:
        return DueTimes(())
    due = due_until(schedule.timing, schedule.next_due, now)
    times = due.times
    while times and start_time(schedule, times[-1]) > now:
        times = times[:-1]
    return replace(due, times=times)


def _following(schedule: Schedule, following: datetime | None) -> ScheduleChange:
    return ScheduleChange(
        state="active" if following is not None else "ended",
        next_due=following,
        start_at=_start_at(schedule, following),
    )


def _start_at(schedule: Schedule, due_at: datetime | None) -> datetime | None:
    return None if due_at is None else start_time(schedule, due_at)


def _pause(schedule: Schedule, reason: str, notice: str) -> ScheduleChange:
    waiting = tuple(
        RunChange(run.due_at, "paused", reason, run_id=run.run_id)
        for run in schedule.open_runs
        if run.state == "due"
    )
    return ScheduleChange(
        state="paused",
        next_due=schedule.next_due,
        start_at=None,
        runs=waiting,
        notice=notice,
        note=reason,
    )


def _plan_after_clock_change(schedule: Schedule, now: datetime) -> ScheduleChange:
    """Return the change after the clock was set back: the first due time after now is the next one.

    A due time that has a final run already does not run again; the store sees to that.
    """
    if isinstance(schedule.timing, Once):
        return _following(schedule, schedule.next_due)
    return _following(schedule, next_due(schedule.timing, now))


def _hold(schedule: Schedule, blocked: str) -> ScheduleChange | None:
    """Return the change that records that a run waits for its agent; None if that is recorded."""
    due_at = schedule.next_due
    if due_at is None or any(run.due_at == due_at for run in schedule.open_runs):
        return None
    return ScheduleChange(
        state="active",
        next_due=due_at,
        start_at=start_time(schedule, due_at),
        runs=(RunChange(due_at, "due", blocked),),
        notice=waits_text(schedule, blocked),
        note=f"waits: {blocked}",
    )


def _plan_due(schedule: Schedule, due: DueTimes, now: datetime) -> ScheduleChange:
    starting = due.times if schedule.rules.catch_up == "all" else due.times[-1:]
    missed = due.times[: len(due.times) - len(starting)]
    if schedule.rules.catch_up == "skip" and _is_late(schedule, starting[0], now):
        missed, starting = due.times, ()
    runs = (
        *_unlisted(schedule, due, "missed"),
        *(RunChange(at, "missed", NOT_RUNNING) for at in missed),
        *_start(schedule, starting, now),
    )
    run_ids = {run.due_at: run.run_id for run in schedule.open_runs}
    count = sum(run.state == "missed" for run in runs)
    following = _following(schedule, next_due(schedule.timing, due.times[-1]))
    is_waiting = any(run.state == "due" for run in runs)
    return replace(
        following,
        state="active" if is_waiting else following.state,
        runs=tuple(replace(run, run_id=run_ids.get(run.due_at)) for run in runs),
        notice=missed_text(schedule, count) if count and not starting else "",
    )


def _start(
    schedule: Schedule, starting: tuple[datetime, ...], now: datetime
) -> tuple[RunChange, ...]:
    """Return the runs of these due times: started, or not because of a failure or an earlier run."""
    if schedule.failures and schedule.failed_at is not None:
        resumes = schedule.failed_at + backoff(schedule.failures)
        if now < resumes:
            until = format_moment(resumes, schedule.zone)
            reason = _("{failures} runs failed in a row; none is started before {until}").format(
                failures=schedule.failures, until=until
            )
            return tuple(RunChange(at, "skipped", reason) for at in starting)
    runs = [
        RunChange(
            at, "running", is_late=_is_late(schedule, at, now), detail=_detail(schedule, at, now)
        )
        for at in starting
    ]
    if not schedule.is_running or schedule.rules.overlap == "allow":
        return tuple(runs)
    skipped = [RunChange(at, "skipped", _("an earlier run was still running")) for at in starting]
    if schedule.rules.overlap == "wait" and not schedule.waiting:
        skipped[0] = RunChange(starting[0], "due", _("waits for the end of an earlier run"))
    return tuple(skipped)


def _detail(schedule: Schedule, due_at: datetime, now: datetime) -> str:
    return (
        _("started at {now}").format(now=format_moment(now, schedule.zone))
        if _is_late(schedule, due_at, now)
        else ""
    )


def _is_late(schedule: Schedule, due_at: datetime, now: datetime) -> bool:
    return now - start_time(schedule, due_at) > schedule.rules.grace


def _unlisted(schedule: Schedule, due: DueTimes, state: str) -> tuple[RunChange, ...]:
    """Return one entry for the due times that are too many to be listed."""
    if due.since is None or not due.times:
        return ()
    until = format_moment(due.times[0], schedule.zone)
    detail = _("and all due times before {until}").format(until=until)
    return (RunChange(due.since, "paused" if state == "paused" else "missed", detail),)
