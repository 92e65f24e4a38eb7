"""Texts about schedules and their runs. Pure."""

from datetime import datetime
from zoneinfo import ZoneInfo

from choir_common.wire.schedules import RunView, ScheduleView
from choir_control.conversations.schedules.records import Schedule
from choir_control.conversations.schedules.timing import Cron, Interval, Once

MAX_QUOTE = 60


def format_moment(moment: datetime, zone: str) -> str:
    """Return a time in a zone: `2026-11-23 08:00 Europe/Berlin`."""
    local = moment.astimezone(ZoneInfo(zone))
    seconds = f"{local:%S}"
    return f"{local:%Y-%m-%d %H:%M}{'' if seconds == '00' else f':{seconds}'} {zone}"


def describe_timing(schedule: Schedule) -> str:
    """Return when a schedule runs."""
    match schedule.timing:
        case Once(at):
            return f"once at {format_moment(at, schedule.zone)}"
        case Interval():
            return f"every {schedule.value}"
        case Cron(expression, zone):
            return f"cron {expression}, {zone}"


def describe_schedule(schedule: Schedule) -> str:
    """Return one line about a schedule, for messages."""
    text = " ".join(schedule.text.split())
    short = text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 1]}…"
    return f"schedule {schedule.schedule_id} ({_kind(schedule)} “{short}”, {describe_timing(schedule)})"


def describe_view(view: ScheduleView) -> str:
    """Return one line about a schedule, for a list in a conversation."""
    due = f"next {format_moment(view.next_at, view.zone)}" if view.next_at else view.state
    note = f" ({view.note})" if view.note else ""
    return f"{view.schedule_id}: {_kind(view)} {view.text}\n   {view.summary}; {due}{note}"


def describe_run(run: RunView, zone: str) -> str:
    """Return one line about a run."""
    detail = f": {run.detail}" if run.detail else ""
    return f"   {format_moment(run.due_at, zone)} {run.state}{detail}"


def reminder_text(schedule: Schedule, due_at: datetime, *, is_late: bool) -> str:
    """Return the message of a reminder: its words unchanged, and if it is late, when it was due."""
    if not is_late:
        return schedule.text
    return f"{schedule.text}\n\n[Choir] This reminder was due at {format_moment(due_at, schedule.zone)}."


def wake_up_summary(schedule: Schedule, due_at: datetime, *, is_late: bool) -> str:
    """Return the description of a run that the agent reads."""
    by = "you" if schedule.is_by_agent else "Choir" if schedule.is_wake_up else "the user"
    late = f"; this run was due at {format_moment(due_at, schedule.zone)}" if is_late else ""
    return f"schedule {schedule.schedule_id}, {describe_timing(schedule)}, created by {by}{late}"


def waits_text(schedule: Schedule, reason: str) -> str:
    """Return the notice that a run waits for its agent."""
    return (
        f"{_sentence(describe_schedule(schedule))} is due, but {reason}. It waits; then the schedule's "
        f"rule for late runs applies ({schedule.rules.catch_up})."
    )


def missed_text(schedule: Schedule, count: int) -> str:
    """Return the notice that runs were missed and nothing of them is made up for."""
    runs = "A run" if count == 1 else f"{count} runs"
    verb = "was" if count == 1 else "were"
    return (
        f"{runs} of {describe_schedule(schedule)} {verb} missed while Choir or "
        f"{schedule.agent_id} was not running."
    )


def failing_text(schedule: Schedule) -> str:
    """Return the notice that a schedule was paused because its runs fail."""
    return (
        f"{_sentence(describe_schedule(schedule))} is paused, because {schedule.failures} runs have failed "
        f"in a row. To go on: choirctl schedule resume {schedule.schedule_id}"
    )


def _kind(schedule: Schedule | ScheduleView) -> str:
    return f"skill {schedule.skill}" if schedule.skill else schedule.kind


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
