"""Commands `choirctl config show|load|diff|apply|report|schema|set`; see
docs/design/configuration.md."""

import asyncio
import json
import time
from typing import Annotated

import typer
from pydantic import JsonValue
from rich.table import Table

from choir_common.errors import ChoirError, DeadlineExceeded
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.config_api import (
    ConfigApplied,
    ConfigChange,
    ConfigDiff,
    ConfigPartStatus,
    ConfigProgress,
    ConfigView,
    RepoChange,
)
from choir_common.wire.config_schema import config_reference, config_schema
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.language import server_text
from choirctl.output.printing import (
    escape,
    print_colored_json,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)
from choirctl.output.state_words import state_text
from choirctl.start.config_set import set_value

MARKS = {"added": "+", "removed": "-", "changed": "~"}
LOOK_S = 0.2
MAX_VALUE = 60
SHORT_COMMIT = 7
MAX_WIDTH = 60
Wait = Annotated[
    float,
    typer.Option("--wait", min=0, help="Seconds to wait for agents and gateway; 0: do not wait."),
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("show")(show)
    group.command("load")(load)
    group.command("diff")(diff)
    group.command("apply")(apply)
    group.command("report")(report)
    group.command("schema")(schema)
    group.command("set")(set_)
    app.add_typer(group, name="config", help="Show config.json, and apply changes to it.")


def show(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the active configuration; secrets by name only."""
    view = asyncio.run(_show(find_target(ctx, home, url)))
    if as_json:
        print_json(view)
        return
    stderr_console().print(
        _("Version {version}, from {value}.").format(
            version=view.version, value=view.source.replace("-", " ")
        )
    )
    if view.note:
        stderr_console().print(
            _("[yellow]config.json is not active:[/] {note}").format(
                note=escape(server_text(view.note))
            )
        )
    if view.staged:
        stderr_console().print(_("Changes are staged: see `choirctl config diff`."))
    print_colored_json(view.config)


def load(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Read config.json and all repositories, and stage them.

    Shows what would change. A repository that cannot be fetched is a warning; if anything is invalid,
    nothing is staged. Nothing becomes active before `config apply`.
    """
    place = find_target(ctx, home, url)
    with stderr_console().status(_("Fetching the repositories…")):
        config_diff = asyncio.run(_load(place))
    _print_diff(config_diff, as_json)


def diff(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show staged changes, and what activating each requires."""
    _print_diff(asyncio.run(_diff(find_target(ctx, home, url))), as_json)


def apply(
    ctx: typer.Context,
    wait_s: Wait = 20.0,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Activate what is staged.

    Then waits until every running agent has applied it. Exits 1 if an agent cannot apply it, 6 if one has
    not applied it in time; the new version is active in both cases.
    """
    applied = asyncio.run(_apply(find_target(ctx, home, url), wait_s, as_json))
    if as_json:
        print_json(applied)
    raise_unless_applied(applied.report, wait_s)


def report(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show which agents have applied the active version."""
    progress = asyncio.run(_report(find_target(ctx, home, url)))
    if as_json:
        print_json(progress)
    else:
        print_rows(_rows(progress))


def schema(
    markdown: Annotated[
        bool, typer.Option("--markdown", help="A table for people instead of a JSON Schema.")
    ] = False,
) -> None:
    """Print the JSON Schema of config.json; needs no running Choir."""
    if markdown:
        typer.echo(config_reference(), nl=False)
    else:
        typer.echo(json.dumps(config_schema(), indent=2, ensure_ascii=False))


def set_(
    ctx: typer.Context,
    key: Annotated[str, typer.Argument(help="The setting's path, such as agents.main.timezone.")],
    value: Annotated[str, typer.Argument(help="JSON; anything else is used as a string.")],
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Change one setting of config.json; Choir need not run.

    The file is not changed if the result would be invalid. `config load` and `config apply` activate
    it.
    """
    file = find_target(ctx, home).home / "config.json"
    new_value = _value(value)
    before = set_value(file, key, new_value)
    if as_json:
        print_json({"file": str(file), "key": key, "before": before, "after": new_value})
        return
    stderr_console().print(
        f"{key}: {_brief(before)} -> {_brief(new_value)}", markup=False, highlight=False
    )
    stderr_console().print(_("Apply it with `choirctl config load`, then `choirctl config apply`."))


def _value(text: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(text)
    except ValueError:
        return text
    return value


async def follow_report(
    api: ControlClient, first: ConfigProgress, wait_s: float, quiet: bool
) -> ConfigProgress:
    """Show each agent's progress until all have applied the version or `wait_s` is over.

    Returns the last report. Also used by `secret apply`.
    """
    progress, printed_states, deadline = first, set[tuple[str, str]](), time.monotonic() + wait_s
    while True:
        for part in (*progress.agents, progress.gateway):
            if not quiet and (part.name, part.state) not in printed_states:
                printed_states.add((part.name, part.state))
                stderr_console().print(_progress(part))
        if progress.settled or time.monotonic() >= deadline:
            return progress
        await asyncio.sleep(LOOK_S)
        progress = await api.config.report()


def raise_unless_applied(progress: ConfigProgress, wait_s: float) -> None:
    """Raise ChoirError if an agent failed to apply the version, DeadlineExceeded if one is still waiting."""
    failed = [part.name for part in progress.agents if part.state == "failed"]
    if failed:
        raise ChoirError(
            _(
                "Version {version} is active, but {names} cannot apply it: see `choirctl config "
                "report`."
            ).format(version=progress.version, names=", ".join(failed))
        )
    late = [part.name for part in progress.agents if part.state == "waiting"]
    if late and wait_s > 0:
        raise DeadlineExceeded(
            _(
                "Version {version} is active, but {names} did not confirm it within {wait_s:g} "
                "s: see `choirctl config report`."
            ).format(version=progress.version, names=", ".join(late), wait_s=wait_s)
        )


async def _show(place: Target) -> ConfigView:
    async with connect(place) as api:
        return await api.config.get()


async def _load(place: Target) -> ConfigDiff:
    async with connect(place) as api:
        return await api.config.load()


async def _diff(place: Target) -> ConfigDiff:
    async with connect(place) as api:
        return await api.config.diff()


async def _report(place: Target) -> ConfigProgress:
    async with connect(place) as api:
        return await api.config.report()


async def _apply(place: Target, wait_s: float, quiet: bool) -> ConfigApplied:
    async with connect(place) as api:
        config_diff = await api.config.diff()
        if not quiet:
            _print_changes(config_diff)
        # the digest of what was just shown: control refuses if something else is staged by now
        result = await api.config.apply(config_diff.digest)
        if not quiet:
            stderr_console().print(_("Version {version} is active.").format(version=result.version))
        progress = await follow_report(api, result.report, wait_s, quiet)
        return result.model_copy(update={"report": progress})


def _print_diff(config_diff: ConfigDiff, as_json: bool) -> None:
    if as_json:
        print_json(config_diff)
        return
    _print_changes(config_diff)
    if config_diff.changes:
        stderr_console().print(_("Activate it with `choirctl config apply`."))


def _print_changes(config_diff: ConfigDiff) -> None:
    if not config_diff.changes:
        more = "" if config_diff.repos else _(", and no repository has new commits")
        stderr_console().print(
            _(
                "The staged configuration is already active (version {running_version}){more}."
            ).format(running_version=config_diff.running_version, more=more),
            highlight=False,
        )
    for line in diff_lines(config_diff):
        stdout_console().print(line, markup=False, highlight=False, soft_wrap=True)
    for warning in config_diff.warnings:
        stderr_console().print(
            _("[yellow]Warning:[/] {warning}").format(warning=escape(server_text(warning)))
        )


def diff_lines(config_diff: ConfigDiff) -> list[str]:
    """Return one line per difference: a mark, the path, its category and what to do.

    See docs/design/configuration.md for the categories.
    """
    files = [
        (f"{MARKS[file.kind]} {repo.owner}:{file.path}", repo.category, repo.note)
        for repo in config_diff.repos
        for file in repo.files
    ]
    more = [
        (
            _("  {owner}: {more} more files").format(owner=repo.owner, more=repo.more),
            repo.category,
            repo.note,
        )
        for repo in config_diff.repos
        if repo.more
    ]
    keys = [
        (_place(change), change.category, _what_to_do(change)) for change in config_diff.changes
    ]
    repos = [(_repo(repo), repo.category, repo.note) for repo in config_diff.repos]
    rows = [*files, *more, *keys, *repos]
    width = min(max((len(place) for place, _, _ in rows), default=0), MAX_WIDTH)
    return [
        f"{place:<{width}}  {f'[{state_text(category)}]':<18} → {server_text(what)}"
        for place, category, what in rows
    ]


def _place(change: ConfigChange) -> str:
    values = (
        "" if change.kind != "changed" else f": {_brief(change.before)} -> {_brief(change.after)}"
    )
    return _("{marks} config.json: {path}{values}").format(
        marks=MARKS[change.kind], path=change.path, values=values
    )


def _what_to_do(change: ConfigChange) -> str:
    return change.note or _("included in: choirctl config apply")


def _repo(repo: RepoChange) -> str:
    before = repo.before[:SHORT_COMMIT] if repo.before else _("not built")
    stale = _(" (stale)") if repo.stale else ""
    owner = repo.owner if len(repo.agents) == 1 else f"{repo.owner} ({', '.join(repo.agents)})"
    return _("  {owner} repo: {before} -> {after}{stale}").format(
        owner=owner, before=before, after=repo.after[:SHORT_COMMIT], stale=stale
    )


def _brief(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}…"


def _rows(progress: ConfigProgress) -> Table:
    rows = table(_("WHO"), _("STATE"), _("VERSION"), _("DETAIL"))
    for part in (*progress.agents, progress.gateway):
        version = "-" if part.version is None else str(part.version)
        rows.add_row(part.name, state_text(part.state), version, escape(server_text(part.detail)))
    return rows


def _progress(part: ConfigPartStatus) -> str:
    colour = {"applied": "green", "waiting": "yellow", "failed": "red"}[part.state]
    detail = f": {escape(server_text(part.detail))}" if part.detail else ""
    return f"{part.name} [{colour}]{state_text(part.state)}[/]{detail}"
