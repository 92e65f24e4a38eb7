"""The command `/schedule`: reminders and instructions for later."""

import re
from typing import cast

from pydantic import ValidationError

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _, join
from choir_common.wire.schedules import (
    DEFAULT_SKILL_TEXT,
    NewSchedule,
    ScheduleEdit,
    ScheduleKind,
    ScheduleView,
    TimingKind,
)
from choir_common.wire.validation_messages import error_messages
from choir_control.conversations.commands.context import CommandContext
from choir_control.conversations.commands.spec import CommandCall
from choir_control.conversations.schedules.service import ScheduleScope
from choir_control.conversations.schedules.texts import (
    describe_run,
    describe_view,
    describe_view_timing,
)

USAGE = (
    "/schedule add in 5m remind tea is ready; /schedule add at 08:00 remind …; /schedule "
    "add every 1d prompt …; /schedule add cron 0 8 * * MON-FRI job …; /schedule add every "
    "1w skill report …"
)
UPDATE_USAGE = (
    "/schedule update 3 at 09:00; /schedule update 3 text call Ann; /schedule update 3 "
    "every 2d text call Ann"
)
_UPDATE = re.compile(
    r"(?:(?P<timing>in|at|every|cron)\s+(?P<value>.+?))??(?:(?:^|\s+)text\s+(?P<text>.+))?",
    re.DOTALL | re.IGNORECASE,
)
_ADD = re.compile(
    r"(?P<timing>in|at|every|cron)\s+(?P<value>.+?)\s+(?P<kind>remind|prompt|job|skill)\s+(?P<text>.+)",
    re.DOTALL | re.IGNORECASE,
)


async def add_schedule(context: CommandContext, call: CommandCall) -> str:
    """Add a schedule to the conversation."""
    typed = call.arguments["what"]
    match = _ADD.fullmatch(typed.strip())
    if match is None:
        raise InvalidRequest(
            _("I cannot read that. Examples: {usage}. Nothing was done.").format(usage=USAGE)
        )
    if call.bound_agent_id is None:
        raise NotFound(_("No agent is bound to this conversation, so nothing was done."))
    kind, text, skill = cast(ScheduleKind, match["kind"].lower()), match["text"], None
    if kind == "skill":
        skill, _space, text = text.partition(" ")
        text = text.strip() or DEFAULT_SKILL_TEXT.format(skill=skill)
    try:
        request = NewSchedule(
            agent_id=call.bound_agent_id,
            kind=kind,
            text=text,
            skill=skill,
            timing=cast(TimingKind, match["timing"].lower()),
            value=match["value"].strip("\"'`"),
            dm=call.dm,
            words=f"/schedule add {typed}"[:4_000],
        )
    except ValidationError as error:
        raise InvalidRequest(f"{'; '.join(error_messages(error, 'the command'))}.") from None
    view = await context.schedules.create(request, f"dm {call.dm}")
    return _("Added: {schedule}").format(schedule=describe_view(view))


async def update_schedule(context: CommandContext, call: CommandCall) -> str:
    """Change the time or the text of a schedule."""
    typed = call.arguments["what"].strip()
    match = _UPDATE.fullmatch(typed)
    if match is None or not typed:
        raise InvalidRequest(
            _("I cannot read that. Examples: {usage}. Nothing was done.").format(usage=UPDATE_USAGE)
        )
    number, timing, value = _number(call), match["timing"], match["value"]
    try:
        edit = ScheduleEdit(
            text=match["text"],
            timing=None if timing is None else cast(TimingKind, timing.lower()),
            value=None if value is None else value.strip("\"'`"),
            words=f"/schedule update {number} {typed}"[:4_000],
        )
    except ValidationError as error:
        raise InvalidRequest(f"{'; '.join(error_messages(error, 'the command'))}.") from None
    view = await context.schedules.edit(number, edit, f"dm {call.dm}", _scope(call))
    return _("Changed: {schedule}").format(schedule=describe_view(view))


async def list_schedules(context: CommandContext, call: CommandCall) -> str:
    """Return the schedules of the conversation, or in an admin conversation all of them."""
    views = await context.schedules.list_all(_scope(call))
    lines = [describe_view(view) for view in views if view.state != "ended"]
    return join("\n", lines) or _("There are no schedules. Examples: {usage}").format(usage=USAGE)


async def show_schedule(context: CommandContext, call: CommandCall) -> str:
    """Return a schedule and its newest runs."""
    view = await context.schedules.show(_number(call), _scope(call))
    return join("\n", [describe_view(view), *(describe_run(run, view.zone) for run in view.runs)])


async def pause_schedule(context: CommandContext, call: CommandCall) -> str:
    """Pause a schedule."""
    return describe_view(await context.schedules.pause(_number(call), _scope(call)))


async def resume_schedule(context: CommandContext, call: CommandCall) -> str:
    """Resume a schedule."""
    return describe_view(await context.schedules.resume(_number(call), _scope(call)))


async def run_schedule(context: CommandContext, call: CommandCall) -> str:
    """Start a run now."""
    view = await context.schedules.run_now(_number(call), _scope(call))
    return _("Started: {schedule}").format(schedule=_first_line(view))


async def remove_schedule(context: CommandContext, call: CommandCall) -> str:
    """Delete a schedule."""
    view = await context.schedules.remove(_number(call), _scope(call))
    return _("Removed: {schedule}").format(schedule=_first_line(view))


def _scope(call: CommandCall) -> ScheduleScope:
    return ScheduleScope() if call.is_admin else ScheduleScope(dm=call.dm)


def _number(call: CommandCall) -> int:
    text = call.arguments["id"]
    if not (text.isdecimal() and len(text) < 19):
        raise InvalidRequest(
            _("{text!r} is not a schedule's number; /schedule lists them.").format(text=text[:40])
        )
    return int(text)


def _first_line(view: ScheduleView) -> str:
    return _("schedule {number}, {timing}").format(
        number=view.schedule_id, timing=describe_view_timing(view)
    )
