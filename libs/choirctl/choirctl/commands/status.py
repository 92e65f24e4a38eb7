"""`choirctl status`: control's own view of the system; next comes `control_api`."""

import asyncio

import typer

from choir_common.errors import Unavailable
from choir_common.wire.operator import SystemStatus
from choirctl.control_api import connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import out, print_json, table
from choirctl.views import agent_rows, work_tree


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(status)


def status(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show whether Choir works, and each part of it.

    Below: every agent, what it and its jobs are at, and what their budgets leave.
    Exits 6 when it does not run, or a part of it is down.
    """
    found = asyncio.run(_read(find_place(ctx, home, url)))
    if as_json:
        print_json(found)
    else:
        _show(found)
    if not found.ready:
        raise typer.Exit(Unavailable.exit_code)


async def _read(place: Place) -> SystemStatus:
    async with connect(place) as api:
        return await api.status()


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
        console.print(agent_rows(found.agents))
    at_work = work_tree(found.agents)
    if at_work is not None:
        console.print()
        console.print(at_work)
