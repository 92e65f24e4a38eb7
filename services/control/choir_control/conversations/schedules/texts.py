"""Texts about schedules and their runs. Pure."""

from datetime import datetime
from zoneinfo import ZoneInfo

from choir_common.i18n import _, join, ngettext
from choir_common.wire.schedules import RunView, ScheduleView
from choir_control.conversations.schedules.records import Schedule
from choir_control.conversations.schedules.timing import Cron, Interval, Once

MAX_QUOTE = 60
ONCE_AT = "once at "
KINDS = {"remind": _("remind"), "prompt": _("prompt"), "job": _("job")}
STATES = {
    "active": _("active"),
    "paused": _("paused"),
    "ended": _("ended"),
    "due": _("due"),
    "running": _("running"),
    "done": _("done"),
    "failed": _("failed"),
    "missed": _("missed"),
    "skipped": _("skipped"),
}
"""Words for the states of schedules and runs; others are shown as they are."""


def format_moment(moment: datetime, zone: str) -> str:
    """Return a time in a zone: `2026-11-23 08:00 Europe/Berlin`."""
    local = moment.astimezone(ZoneInfo(zone))
    seconds = f"{local:%S}"
    return f"{local:%Y-%m-%d %H:%M}{'' if seconds == '00' else f':{seconds}'} {zone}"


def describe_timing(schedule: Schedule) -> str:
    """Return when a schedule runs."""
    match schedule.timing:
        case Once(at):
            return _("once at {moment}").format(moment=format_moment(at, schedule.zone))
        case Interval():
            return _("every {value}").format(value=schedule.value)
        case Cron(expression, zone):
            return _("cron {expression}, {zone}").format(expression=expression, zone=zone)


def describe_schedule(schedule: Schedule) -> str:
    """Return one line about a schedule, for messages."""
    return _("schedule {rest}").format(rest=_rest(schedule))


def _rest(schedule: Schedule) -> str:
    text = " ".join(schedule.text.split())
    short = text if len(text) <= MAX_QUOTE else f"{text[: MAX_QUOTE - 1]}…"
    return _("{number} ({kind} “{text}”, {timing})").format(
        number=schedule.schedule_id,
        kind=_kind(schedule),
        text=short,
        timing=describe_timing(schedule),
    )


def describe_view_timing(view: ScheduleView) -> str:
    """Return when a schedule runs, from its view: its `summary`, which JSON has in English, as a message."""
    match view.timing:
        case "every":
            return _("every {value}").format(value=view.value)
        case "cron":
            return view.summary
        case _once:
            return _("once at {moment}").format(moment=view.summary.removeprefix(ONCE_AT))


def describe_view(view: ScheduleView) -> str:
    """Return one line about a schedule, for a list in a conversation."""
    due = (
        _("next {moment}").format(moment=format_moment(view.next_at, view.zone))
        if view.next_at
        else STATES.get(view.state, view.state)
    )
    first = join(" ", (f"{view.schedule_id}:", _kind(view), view.text))
    second = join("; ", (describe_view_timing(view), due))
    if view.note:
        second = join(" ", (second, f"({view.note})"))
    return join("\n   ", (first, second))


def describe_run(run: RunView, zone: str) -> str:
    """Return one line about a run."""
    detail = f": {run.detail}" if run.detail else ""
    first = f"   {format_moment(run.due_at, zone)}"
    return join("", (join(" ", (first, STATES.get(run.state, run.state))), detail))


def reminder_text(schedule: Schedule, due_at: datetime, *, is_late: bool) -> str:
    """Return the message of a reminder: its words unchanged, and if it is late, when it was due."""
    if not is_late:
        return schedule.text
    late = _("This reminder was due at {moment}.").format(
        moment=format_moment(due_at, schedule.zone)
    )
    return join("\n\n[Choir] ", (schedule.text, late))


def wake_up_summary(schedule: Schedule, due_at: datetime, *, is_late: bool) -> str:
    """Return the description of a run that the agent reads."""
    by = "you" if schedule.is_by_agent else "Choir" if schedule.is_wake_up else "the user"
    late = f"; this run was due at {format_moment(due_at, schedule.zone)}" if is_late else ""
    return f"schedule {schedule.schedule_id}, {describe_timing(schedule)}, created by {by}{late}"


def waits_text(schedule: Schedule, reason: str) -> str:
    """Return the notice that a run waits for its agent."""
    return _(
        "{schedule} is due, but {reason}. It waits; then the schedule's rule for late runs applies "
        "({catch_up})."
    ).format(schedule=_sentence(schedule), reason=reason, catch_up=schedule.rules.catch_up)


def missed_text(schedule: Schedule, count: int) -> str:
    """Return the notice that runs were missed and nothing of them is made up for."""
    return ngettext(
        "A run of {schedule} was missed while Choir or {agent} was not running.",
        "{count} runs of {schedule} were missed while Choir or {agent} was not running.",
        count,
        schedule=describe_schedule(schedule),
        agent=schedule.agent_id,
    )


def failing_text(schedule: Schedule) -> str:
    """Return the notice that a schedule was paused because its runs fail."""
    return ngettext(
        "{schedule} is paused, because {count} run has failed. To go on: choirctl schedule resume {number}",
        "{schedule} is paused, because {count} runs have failed in a row. To go on: choirctl schedule "
        "resume {number}",
        schedule.failures,
        schedule=_sentence(schedule),
        number=schedule.schedule_id,
    )


def _kind(schedule: Schedule | ScheduleView) -> str:
    if schedule.skill:
        return _("skill {skill}").format(skill=schedule.skill)
    return KINDS.get(schedule.kind, schedule.kind)


def _sentence(schedule: Schedule) -> str:
    """Return one line about a schedule as the beginning of a sentence."""
    return _("Schedule {rest}").format(rest=_rest(schedule))
