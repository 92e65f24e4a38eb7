"""Commands `choirctl tool new|check|try|list`; see docs/tools.md."""

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.local_tools import ToolTrial
from choir_common.wire.model import JsonObject
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import AgentId, OptionalAgentId
from choirctl.output.printing import (
    escape,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)
from choirctl.output.state_words import state_text
from choirctl.output.tool_views import check_lines, trial_lines
from choirctl.start.config_file import read_config
from choirctl.start.local_tools import TOOLS, LocalTools, check_folder, find_differences
from choirctl.start.tool_templates import TemplateName

NOTHING = _("No tools in the agents' folders; `choirctl tool new AGENT NAME` writes one.")

ToolName = Annotated[
    str, typer.Argument(metavar="NAME", help="The tool, by name, such as text.count.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app, "tool", ("new", new_tool), ("check", check), ("try", try_tool), ("list", list_tools)
    )


def new_tool(
    ctx: typer.Context,
    agent: AgentId,
    name: ToolName,
    template: Annotated[
        TemplateName, typer.Option(help="What the new tool is made from.")
    ] = "python",
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write a small working tool into an agent's folder.

    It has a manifest, a program and a test case. Nothing is overwritten. The agent has the tool after
    `agent update`.
    """
    files = _tools(ctx, home).create(agent, name, template)
    steps = [
        f"choirctl tool check {agent} {name}",
        f"choirctl tool try {agent} {name}",
        f"choirctl agent update {agent}",
    ]
    if as_json:
        print_json({"files": [str(path) for path in files], "next": steps})
        return
    _print_lines([_("Wrote {path}").format(path=path) for path in files], stderr=True)
    _print_lines([_("Edit them, then:"), *(f"  {step}" for step in steps)], stderr=True)


def check(
    ctx: typer.Context,
    agent: Annotated[
        str,
        typer.Argument(metavar="AGENT|PATH", help="The agent's id, or a folder or a manifest."),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Only this tool.", show_default=False)
    ] = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check tools with the agent's own loader; Choir need not run.

    Names every file and line with which the agent would not start, and what to do; exits 1 then. A PATH has
    a slash, or is a dot.
    """
    is_path = "/" in agent or agent in (".", "..")
    folder, stem = (
        _folder_of_path(Path(agent)) if is_path else (_tools(ctx, home).folder(agent), "")
    )
    report = check_folder(folder, name or stem)
    if as_json:
        print_json({"directory": str(folder), **report.model_dump(mode="json")})
    else:
        _print_lines(check_lines(folder, report))
    if report.refusals:
        raise typer.Exit(ChoirError.exit_code)


def try_tool(
    ctx: typer.Context,
    agent: AgentId,
    name: ToolName,
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="JSON", help="The input; without it, the test case.", show_default=False
        ),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Run one call of a tool behind the walls of a real call.

    Shows result, standard error, and what was refused. There is no session, and nothing is logged; what
    the tool writes stays. Exits 1 if the call fails, or if the output is not what the test case expects.
    """
    place = find_target(ctx, home, url)
    expected: JsonObject = {}
    if text is None:
        inputs, expected = _tools(ctx, home).test_case(agent, name)
    else:
        inputs = _parse_input(text)
    trial = asyncio.run(_try(place, agent, name, inputs))
    differences = find_differences(expected, trial.output) if trial.status == "success" else []
    if as_json:
        print_json({**trial.model_dump(mode="json"), "differences": differences})
    else:
        _print_lines(trial_lines(trial))
        _print_lines(
            [
                _("Test case: {difference}").format(difference=difference)
                for difference in differences
            ]
        )
    if trial.status != "success" or differences:
        raise typer.Exit(ChoirError.exit_code)


def list_tools(
    ctx: typer.Context, agent: OptionalAgentId = None, home: Home = None, as_json: AsJson = False
) -> None:
    """List the tools in the agents' folders, and broken ones."""
    local = _tools(ctx, home)
    folders = {name: local.folder(name) for name in ([agent] if agent else local.agents)}
    reports = {name: check_folder(path) for name, path in folders.items() if path.is_dir()}
    if as_json:
        print_json({name: report.model_dump(mode="json") for name, report in reports.items()})
        return
    rows = table(_("TOOL"), _("AGENT"), _("STATE"), _("EFFECT"), _("NETWORK"), _("DESCRIPTION"))
    for name, report in reports.items():
        for tool in report.tools:
            network = ", ".join(tool.hosts) or _("any host") if tool.network else _("no")
            about = (escape(tool.description), tool.side_effect, escape(network))
            rows.add_row(tool.name, name, state_text("ok"), about[1], about[2], about[0])
        for fault in report.refusals:
            rows.add_row(
                escape(fault.tool or fault.file), name, _("broken"), "", "", escape(fault.message)
            )
    print_rows(rows, NOTHING)


def _tools(ctx: typer.Context, home: Home) -> LocalTools:
    place = find_target(ctx, home).home
    return LocalTools(place, read_config(place / "config.json"))


def _folder_of_path(path: Path) -> tuple[Path, str]:
    """Return the folder with manifests that a path names, and the name of a single manifest."""
    if path.suffix == ".json":
        return path.parent.absolute(), path.stem
    inner = path / TOOLS
    return (inner if inner.is_dir() else path).absolute(), ""


def _parse_input(text: str) -> JsonObject:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise InvalidRequest(_("The input is not JSON: {error}.").format(error=error)) from None
    if not isinstance(value, dict):
        raise InvalidRequest(_('The input must be a JSON object, such as \'{"text": "hello"}\'.'))
    return value


async def _try(place: Target, agent: str, name: str, inputs: JsonObject) -> ToolTrial:
    async with connect(place) as api:
        return await api.agents.try_tool(agent, name, inputs)


def _print_lines(lines: Iterable[str], *, stderr: bool = False) -> None:
    console = stderr_console() if stderr else stdout_console()
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
