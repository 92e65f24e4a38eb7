"""Command `choirctl status`: the system's state as control reports it."""

import asyncio
import contextlib
from typing import Annotated

import typer
from rich.markup import escape

from choir_common.errors import ChoirError, Unavailable
from choir_common.wire.configuring import ConfigView
from choir_common.wire.operator import SystemStatus
from choirctl.control_api import ControlApi, connect, parse
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import counted, out, print_json, print_rows, table
from choirctl.status_words import agent_words, model_words, system_words
from choirctl.views import agent_rows, work_tree

LOOKED_AT = 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(
    ctx: typer.Context,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show each part, lane, budget and id.")
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show whether Choir works, what agents do, and what waits.

    Exits 6 if Choir does not run, or a part of it is down.
    """
    found, waits = asyncio.run(_read(find_place(ctx, home, url), as_json))
    if as_json:
        print_json(found)
    else:
        (_show if verbose else _say)(found)
        _show_waiting(waits)
    if not found.ready:
        raise typer.Exit(Unavailable.exit_code)


async def _read(place: Place, quiet: bool) -> tuple[SystemStatus, list[str]]:
    async with connect(place) as api:
        found = await api.status()
        return found, [] if quiet else await _waiting(api)


async def _waiting(api: ControlApi) -> list[str]:
    """Return a line for each running operation and each thing that waits for the operator."""
    lines: list[str] = []
    # this fails if the database is down, which the parts of the status show already
    with contextlib.suppress(ChoirError):
        pending = sum(view.status == "pending" for view in await api.approvals())
        if pending:
            verb = "waits" if pending == 1 else "wait"
            who = counted(pending, "request")
            lines.append(f"{who} {verb} for your decision: `choirctl approval list`.")
        for work in await api.operations(LOOKED_AT):
            if work.status == "running":
                share = "" if work.share is None else f" ({work.share:.0%})"
                lines.append(f"{work.kind} of {work.subject}: {work.step}{share}.")
        view = parse(await api.send("GET", "/v1/config"), ConfigView)
        if view.staged:
            lines.append("A configuration is staged and not in force: `choirctl config diff`.")
        if view.note:
            lines.append(f"config.json is not in force: {view.note}")
    return lines


def _say(found: SystemStatus) -> None:
    console = out()
    for line in [
        *system_words(found),
        *(it for agent in found.agents for it in agent_words(agent)),
    ]:
        console.print(line, markup=False, highlight=False)


def _show(found: SystemStatus) -> None:
    console = out()
    word = "[green]ready[/]" if found.ready else "[red]not ready[/]"
    console.print(f"Choir {found.version} is {word}. State: {found.home}. Model: {found.model}.")
    parts = table("PART", "", "DETAIL")
    for part in found.parts:
        parts.add_row(part.name, "[green]up[/]" if part.ok else "[red]down[/]", part.detail)
    console.print(parts)
    if found.agents:
        console.print()
        print_rows(agent_rows(found.agents))
    for agent in found.agents:
        for line in model_words(agent):
            console.print(f"{agent.agent_id}: {line.strip()}", markup=False, highlight=False)
    at_work = work_tree(found.agents)
    if at_work is not None:
        console.print()
        console.print(at_work, soft_wrap=False)


def _show_waiting(waits: list[str]) -> None:
    console = out()
    for line in waits:
        console.print(f"[yellow]![/] {escape(line)}", highlight=False)
