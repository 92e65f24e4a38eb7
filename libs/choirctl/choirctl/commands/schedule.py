"""Commands `choirctl schedule add|update|list|show|pause|resume|run|remove`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, TypeVar
from zoneinfo import ZoneInfo

import typer
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.schedules import (
    DEFAULT_SKILL_TEXT,
    CatchUp,
    NewSchedule,
    ScheduleEdit,
    ScheduleView,
)
from choir_common.wire.validation_messages import error_messages
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, OptionalAgentId
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, stdout_console, table
from choirctl.output.state_words import state_text

NOTHING = _('No schedules; `choirctl schedule add main --in 5m --remind "tea is ready"` adds one.')
MISSED_RUNS: dict[CatchUp, str] = {
    "once": _("the newest one starts late"),
    "skip": _("none starts"),
    "all": _("all start late"),
}
T = TypeVar("T")
M = TypeVar("M", NewSchedule, ScheduleEdit)
ScheduleId = Annotated[
    int, typer.Argument(metavar="SCHEDULE", help="The schedule's number.", min=1)
]
After = Annotated[
    str | None, typer.Option("--in", help="Once, after this time: 90s, 5m, 1h30m, 2d.")
]
At = Annotated[
    str | None, typer.Option("--at", help="Once, at this time: 08:00 or `2026-12-24 18:00`.")
]
Every = Annotated[
    str | None, typer.Option("--every", help="Again and again, after this time: 1h, 1d.")
]
CronExpression = Annotated[
    str | None, typer.Option("--cron", help="By a cron expression: `0 8 * * MON-FRI`.")
]
Remind = Annotated[str | None, typer.Option("--remind", help="Send these words unchanged.")]
Prompt = Annotated[str | None, typer.Option("--prompt", help="Give the agent this instruction.")]
Job = Annotated[str | None, typer.Option("--job", help="Start a core job with this task.")]
Skill = Annotated[
    str | None,
    typer.Option(
        "--skill", help="Run this skill in a core job; its task: --job, also as JSON input."
    ),
]
Zone = Annotated[str | None, typer.Option("--zone", help="Time zone, such as Europe/Berlin.")]
Conversation = Annotated[
    str | None, typer.Option("--dm", help="The conversation; default: the agent's.")
]
CatchUpRule = Annotated[
    str, typer.Option(help="What happens with late runs.", metavar="once|skip|all")
]
Grace = Annotated[str, typer.Option(help="A run is late after this time.")]
OverlapRule = Annotated[
    str | None,
    typer.Option(help="A run while an earlier one is running.", metavar="skip|wait|allow"),
]
NewCatchUpRule = Annotated[
    str | None,
    typer.Option("--catch-up", help="What happens with late runs.", metavar="once|skip|all"),
]
NewGrace = Annotated[str | None, typer.Option("--grace", help="A run is late after this time.")]
NewJitter = Annotated[str | None, typer.Option("--jitter", help="Start up to this much later.")]
NewMaxFailures = Annotated[
    int | None, typer.Option("--max-failures", help="Pause after so many failures in a row.")
]
Text = Annotated[str | None, typer.Option(help="New words of the reminder or the instruction.")]
Jitter = Annotated[str, typer.Option(help="Start up to this much later.")]
MaxFailures = Annotated[int, typer.Option(help="Pause after so many failures in a row.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "schedule",
        ("add", add_schedule),
        ("update", update),
        ("list", list_schedules),
        ("show", show),
        ("pause", pause),
        ("resume", resume),
        ("run", run),
        ("remove", remove),
    )


def add_schedule(
    ctx: typer.Context,
    agent: AgentId,
    after: After = None,
    at: At = None,
    every: Every = None,
    cron: CronExpression = None,
    remind: Remind = None,
    prompt: Prompt = None,
    job: Job = None,
    skill: Skill = None,
    zone: Zone = None,
    dm: Conversation = None,
    catch_up: CatchUpRule = "once",
    grace: Grace = "10m",
    overlap: OverlapRule = None,
    jitter: Jitter = "0s",
    max_failures: MaxFailures = 5,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add a reminder, an instruction, a core job or a skill for later."""
    times = {"in": after, "at": at, "every": every, "cron": cron}
    timing, value = _only(_("--in, --at, --every and --cron"), **times)
    if skill is not None:
        job = job or DEFAULT_SKILL_TEXT.format(skill=skill)
    works = {"remind": remind, "prompt": prompt, "job": job}
    kind, text = _only(_("--remind, --prompt, --job and --skill"), **works)
    options_text = f"--{kind} {text}" if skill is None else f"--skill {skill} --job {text}"
    fields = {
        "agent_id": agent,
        "kind": kind if skill is None else "skill",
        "text": text,
        "skill": skill,
        "timing": timing,
        "value": value,
        "zone": zone,
        "dm": dm,
        "catch_up": catch_up,
        "grace": grace,
        "overlap": overlap,
        "jitter": jitter,
        "max_failures": max_failures,
        "words": f"choirctl schedule add {agent} --{timing} {value} {options_text}"[:4_000],
    }
    request = _parse(NewSchedule, fields)
    view = asyncio.run(_call(find_target(ctx, home, url), lambda api: api.schedules.add(request)))
    _print_one(view, as_json=as_json)


def update(
    ctx: typer.Context,
    schedule: ScheduleId,
    after: After = None,
    at: At = None,
    every: Every = None,
    cron: CronExpression = None,
    text: Text = None,
    zone: Zone = None,
    catch_up: NewCatchUpRule = None,
    grace: NewGrace = None,
    overlap: OverlapRule = None,
    jitter: NewJitter = None,
    max_failures: NewMaxFailures = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change the text, the time or the rules of a schedule."""
    times = {"in": after, "at": at, "every": every, "cron": cron}
    chosen_times = {name: value for name, value in times.items() if value is not None}
    timing, value = (
        _only(_("--in, --at, --every and --cron"), **chosen_times) if chosen_times else (None, None)
    )
    options = {
        "text": text,
        "timing": timing,
        "value": value,
        "zone": zone,
        "catch_up": catch_up,
        "grace": grace,
        "overlap": overlap,
        "jitter": jitter,
        "max_failures": max_failures,
    }
    fields = {name: option for name, option in options.items() if option is not None}
    options_text = " ".join(
        f"--{timing if name == 'value' else name.replace('_', '-')} {option}"
        for name, option in fields.items()
        if name != "timing"
    )
    request = _parse(
        ScheduleEdit,
        {**fields, "words": f"choirctl schedule update {schedule} {options_text}"[:4_000]},
    )
    view = asyncio.run(
        _call(find_target(ctx, home, url), lambda api: api.schedules.update(schedule, request))
    )
    _print_one(view, as_json=as_json)


def list_schedules(
    ctx: typer.Context,
    agent: OptionalAgentId = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List schedules, oldest first."""
    views = asyncio.run(_call(find_target(ctx, home, url), lambda api: api.schedules.list(agent)))
    if as_json:
        print_json(views)
        return
    rows = table(_("SCHEDULE"), _("AGENT"), _("STATE"), _("NEXT"), _("WHEN"), _("KIND"), _("TEXT"))
    for view in views:
        rows.add_row(
            str(view.schedule_id),
            view.agent_id,
            state_text(view.state),
            _next(view),
            escape(server_text(view.summary)),
            state_text(view.kind),
            escape(view.text),
        )
    print_rows(rows, NOTHING)


def show(
    ctx: typer.Context,
    schedule: ScheduleId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a schedule and its newest runs."""
    view = asyncio.run(_call(find_target(ctx, home, url), lambda api: api.schedules.get(schedule)))
    _print_one(view, as_json=as_json)


def pause(
    ctx: typer.Context,
    schedule: ScheduleId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start no further runs until it is resumed."""
    view = asyncio.run(
        _call(find_target(ctx, home, url), lambda api: api.schedules.pause(schedule))
    )
    _print_one(view, as_json=as_json)


def resume(
    ctx: typer.Context,
    schedule: ScheduleId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Go on with the next due time."""
    view = asyncio.run(
        _call(find_target(ctx, home, url), lambda api: api.schedules.resume(schedule))
    )
    _print_one(view, as_json=as_json)


def run(
    ctx: typer.Context,
    schedule: ScheduleId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start a run now, in addition to its times."""
    view = asyncio.run(_call(find_target(ctx, home, url), lambda api: api.schedules.run(schedule)))
    _print_one(view, as_json=as_json)


def remove(
    ctx: typer.Context,
    schedule: ScheduleId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete a schedule and its history."""
    view = asyncio.run(
        _call(find_target(ctx, home, url), lambda api: api.schedules.remove(schedule))
    )
    if as_json:
        print_json(view)
    else:
        stdout_console().print(
            _("Schedule {schedule_id} is removed.").format(schedule_id=view.schedule_id),
            markup=False,
        )


def _parse(model: type[M], fields: Mapping[str, object]) -> M:
    """Return the request. Raises InvalidRequest that names the options."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, _("the command"))) + ".") from None


def _only(names: str, **options: str | None) -> tuple[str, str]:
    """Return the one option that is given. Raises InvalidRequest for none or several."""
    present = [(name, value) for name, value in options.items() if value is not None]
    if len(present) != 1:
        raise InvalidRequest(_("Give exactly one of {names}.").format(names=names))
    return present[0]


def _next(view: ScheduleView) -> str:
    if view.next_at is None:
        return "-"
    due = view.next_at.astimezone(ZoneInfo(view.zone))
    return f"{due:%Y-%m-%d %H:%M:%S}" if due.second else f"{due:%Y-%m-%d %H:%M}"


def _print_one(view: ScheduleView, *, as_json: bool) -> None:
    if as_json:
        print_json(view)
        return
    console = stdout_console()
    console.print(
        _("Schedule {schedule_id} of {agent_id}: {state}").format(
            schedule_id=view.schedule_id, agent_id=view.agent_id, state=state_text(view.state)
        ),
        markup=False,
    )
    facts = (
        (_("when"), server_text(view.summary)),
        (_("next"), _next(view)),
        (state_text(view.kind), view.text),
        (_("runs the skill"), view.skill),
        (_("to"), view.dm),
        (_("note"), server_text(view.note)),
        (_("missed runs"), MISSED_RUNS[view.catch_up]),
        (_("late after"), _("{grace_s:g} min").format(grace_s=view.grace_s / 60)),
        (_("overlap"), state_text(view.overlap)),
        (
            _("failures"),
            _("{done} of {total}").format(done=view.failures, total=view.max_failures),
        ),
        (_("created by"), view.created_by),
        (_("text by"), "" if view.text_by == view.created_by else view.text_by),
        (_("from"), view.words),
    )
    for name, value in facts:
        if value:
            console.print(f"  {name}: {value}", markup=False)
    if not view.runs:
        return
    rows = table(_("DUE"), _("STATE"), _("DETAIL"))
    zone = ZoneInfo(view.zone)
    for item in view.runs:
        due = f"{item.due_at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
        rows.add_row(due, state_text(item.state), escape(server_text(item.detail)))
    print_rows(rows)


async def _call(place: Target, request: Callable[[ControlClient], Awaitable[T]]) -> T:
    async with connect(place) as api:
        return await request(api)
