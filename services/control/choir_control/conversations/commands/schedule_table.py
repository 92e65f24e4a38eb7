"""The rows of `/schedule` in the command table."""

from choir_common.i18n import _
from choir_control.conversations.commands import schedules
from choir_control.conversations.commands.spec import (
    ArgumentKind,
    CommandArgument,
    CommandScope,
    CommandSpec,
    MutationAction,
    QueryAction,
)

_ID = CommandArgument("id", required=True)
_ROUTE = "/v1/schedules/{schedule_id}"

SCHEDULE_COMMANDS = (
    CommandSpec(
        _("List reminders and instructions for later."),
        typed_form="/schedule",
        action=QueryAction(schedules.list_schedules),
        choirctl="schedule list",
        route="GET /v1/schedules",
    ),
    CommandSpec(
        _(
            "Add one: in, at, every or cron; then remind, prompt, job or skill NAME; then the "
            "words."
        ),
        typed_form="/schedule add",
        arguments=(CommandArgument("what", ArgumentKind.TEXT, required=True),),
        action=MutationAction(schedules.add_schedule),
        choirctl="schedule add",
        route="POST /v1/schedules",
    ),
    CommandSpec(
        _("Change one: a new time (in, at, every or cron), and text with new words."),
        typed_form="/schedule update",
        arguments=(_ID, CommandArgument("what", ArgumentKind.TEXT, required=True)),
        action=MutationAction(schedules.update_schedule),
        choirctl="schedule update",
        route=f"PATCH {_ROUTE}",
    ),
    CommandSpec(
        _("Show a schedule and its newest runs."),
        CommandScope.DM,
        "/schedule show",
        (_ID,),
        QueryAction(schedules.show_schedule),
        choirctl="schedule show",
        route=f"GET {_ROUTE}",
    ),
    CommandSpec(
        _("Start no further runs of a schedule."),
        CommandScope.DM,
        "/schedule pause",
        (_ID,),
        MutationAction(schedules.pause_schedule),
        choirctl="schedule pause",
        route=f"POST {_ROUTE}/pause",
    ),
    CommandSpec(
        _("Go on with a paused schedule."),
        CommandScope.DM,
        "/schedule resume",
        (_ID,),
        MutationAction(schedules.resume_schedule),
        choirctl="schedule resume",
        route=f"POST {_ROUTE}/resume",
    ),
    CommandSpec(
        _("Start a run of a schedule now."),
        CommandScope.DM,
        "/schedule run",
        (_ID,),
        MutationAction(schedules.run_schedule),
        choirctl="schedule run",
        route=f"POST {_ROUTE}/run",
    ),
    CommandSpec(
        _("Delete a schedule."),
        CommandScope.DM,
        "/schedule remove",
        (_ID,),
        MutationAction(schedules.remove_schedule),
        choirctl="schedule remove",
        route=f"DELETE {_ROUTE}",
    ),
)
