"""New text, time and rules of a schedule, checked, and what they do to its next run. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _
from choir_common.wire.schedules import (
    MAX_SCHEDULE_TEXT,
    CatchUp,
    NewSchedule,
    Overlap,
    ScheduleEdit,
)
from choir_control.conversations.schedules.planning import start_time
from choir_control.conversations.schedules.records import EditedSchedule, Schedule, ScheduleRules
from choir_control.conversations.schedules.timing import (
    Cron,
    Once,
    Timing,
    next_due,
    parse_duration,
    parse_timing,
)

MAX_JITTER = timedelta(hours=1)


def rules_of(request: NewSchedule) -> ScheduleRules:
    """Return the rules of a new schedule. Raises InvalidRequest."""
    return ScheduleRules(
        catch_up=request.catch_up,
        grace=parse_duration(request.grace),
        overlap=request.overlap or ("allow" if request.kind == "remind" else "skip"),
        jitter=parse_jitter(request.jitter),
        max_failures=request.max_failures,
    )


def parse_jitter(text: str) -> timedelta:
    """Return a jitter. Raises InvalidRequest."""
    jitter = parse_duration(text)
    if jitter > MAX_JITTER:
        raise InvalidRequest(_("jitter {text}: at most one hour.").format(text=text))
    return jitter


def stored_value(timing: Timing, value: str) -> str:
    """Return the value of a timing as it is stored: of a moment, the time in UTC."""
    return timing.at.isoformat() if isinstance(timing, Once) else value.strip()


def edit_schedule(
    schedule: Schedule, edit: ScheduleEdit, *, by: str, now: datetime
) -> EditedSchedule:
    """Return the schedule with new values; `by` is who asks for them.

    A new time makes the schedule forget what was due: what has not started is skipped. Failures before the
    edit no longer count. Raises InvalidRequest, and Conflict for a schedule that has ended.
    """
    if schedule.state == "ended":
        raise Conflict(
            _("Schedule {schedule_id} has ended; add a new one.").format(
                schedule_id=schedule.schedule_id
            )
        )
    if edit.is_empty:
        raise InvalidRequest(_("Nothing is to be changed; give a new text, time or rule."))
    if edit.timing is not None and edit.value is None:
        raise InvalidRequest(_("timing without value: give the new time, too."))
    timing = _new_timing(schedule, edit, now)
    edited = replace(
        schedule,
        text=edit.text or schedule.text,
        text_by=by if edit.text else schedule.text_by,
        words=_joined(schedule.words, edit.words),
        zone=edit.zone or schedule.zone,
        rules=_new_rules(schedule.rules, edit),
    )
    if timing is None:
        due_at = schedule.next_due
        return EditedSchedule(edited, None if due_at is None else start_time(edited, due_at))
    due_at = next_due(timing, now)
    if due_at is None:
        raise InvalidRequest(
            _("{value} has passed.").format(value=(edit.value or schedule.value)[:40])
        )
    edited = replace(
        edited,
        timing=timing,
        timing_kind=edit.timing or schedule.timing_kind,
        value=stored_value(timing, edit.value or schedule.value),
        next_due=due_at,
        note="" if schedule.state == "active" else schedule.note,
    )
    waiting = tuple(run for run in schedule.open_runs if run.state == "due")
    return EditedSchedule(edited, start_time(edited, due_at), waiting)


def _new_timing(schedule: Schedule, edit: ScheduleEdit, now: datetime) -> Timing | None:
    """Return the new timing, or None if it stays the same."""
    zone = edit.zone or schedule.zone
    if edit.value is not None:
        return parse_timing(edit.timing or schedule.timing_kind, edit.value, zone, now)
    # The other timings do not depend on the zone once they are stored.
    if isinstance(schedule.timing, Cron) and zone != schedule.zone:
        return Cron(schedule.timing.expression, zone)
    return None


def _new_rules(rules: ScheduleRules, edit: ScheduleEdit) -> ScheduleRules:
    catch_up: CatchUp = edit.catch_up or rules.catch_up
    overlap: Overlap = edit.overlap or rules.overlap
    return ScheduleRules(
        catch_up=catch_up,
        grace=rules.grace if edit.grace is None else parse_duration(edit.grace),
        overlap=overlap,
        jitter=rules.jitter if edit.jitter is None else parse_jitter(edit.jitter),
        max_failures=edit.max_failures or rules.max_failures,
    )


def _joined(before: str, added: str) -> str:
    """Return the words from which a schedule was made, the newest last; the oldest are cut off."""
    return f"{before}\n{added}".strip()[-MAX_SCHEDULE_TEXT:] if added else before
