"""Command `choirctl status`: the system's state as control reports it."""

import asyncio
import contextlib
from typing import Annotated

import typer

from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _, ngettext
from choir_common.target import Target
from choir_common.wire.operator import SystemStatus
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.language import server_text
from choirctl.output.printing import escape, print_json, print_rows, stdout_console, table
from choirctl.output.status_text import agent_lines, model_lines, system_lines
from choirctl.output.views import agent_rows, work_tree

MAX_OPERATIONS = 20


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
    """Show the state of Choir and its agents, and pending requests.

    Exits 6 if Choir does not run, or a part of it is down.
    """
    system_status, waiting_lines = asyncio.run(_read(find_target(ctx, home, url), as_json))
    if as_json:
        print_json(system_status)
    else:
        (_print_tables if verbose else _print_text)(system_status)
        _show_waiting(waiting_lines)
    if not system_status.ready:
        raise typer.Exit(Unavailable.exit_code)


async def _read(place: Target, quiet: bool) -> tuple[SystemStatus, list[str]]:
    async with connect(place, at_once=True) as api:
        system_status = await api.status()
        return system_status, [] if quiet else await _waiting(api)


async def _waiting(api: ControlClient) -> list[str]:
    """Return a line for each running operation and each thing that waits for the operator."""
    lines: list[str] = []
    # this fails if the database is down, which the parts of the status show already
    with contextlib.suppress(ChoirError):
        pending = sum(view.status == "pending" for view in await api.approvals.list())
        if pending:
            lines.append(
                ngettext(
                    "{count} request waits for your decision: `choirctl approval list`.",
                    "{count} requests wait for your decision: `choirctl approval list`.",
                    pending,
                )
            )
        for work in await api.operations.list(MAX_OPERATIONS):
            if work.status == "running":
                share = "" if work.share is None else f" ({work.share:.0%})"
                lines.append(
                    _("{what}: {status}{share}.").format(
                        what=server_text(f"{work.kind} of {work.subject}"),
                        status=server_text(work.step),
                        share=share,
                    )
                )
        view = await api.config.get()
        if view.staged:
            lines.append(_("A configuration is staged but not active: `choirctl config diff`."))
        if view.note:
            lines.append(_("config.json is not active: {note}").format(note=server_text(view.note)))
    return lines


def _print_text(system_status: SystemStatus) -> None:
    console = stdout_console()
    for line in [
        *system_lines(system_status),
        *(it for agent in system_status.agents for it in agent_lines(agent)),
    ]:
        console.print(line, markup=False, highlight=False)


def _print_tables(system_status: SystemStatus) -> None:
    console = stdout_console()
    word = _("[green]ready[/]") if system_status.ready else _("[red]not ready[/]")
    console.print(
        _("Choir {version} is {word}. State: {home}. Model: {model}.").format(
            version=system_status.version,
            word=word,
            home=system_status.home,
            model=system_status.model,
        )
    )
    parts = table(_("PART"), "", _("DETAIL"))
    for part in system_status.parts:
        state = _("[green]up[/]") if part.ok else _("[red]down[/]")
        parts.add_row(part.name, state, escape(server_text(part.detail)))
    console.print(parts)
    if system_status.agents:
        console.print()
        print_rows(agent_rows(system_status.agents))
    for agent in system_status.agents:
        for line in model_lines(agent):
            console.print(f"{agent.agent_id}: {line.strip()}", markup=False, highlight=False)
    at_work = work_tree(system_status.agents)
    if at_work is not None:
        console.print()
        console.print(at_work, soft_wrap=False)


def _show_waiting(waits: list[str]) -> None:
    console = stdout_console()
    for line in waits:
        console.print(f"[yellow]![/] {escape(line)}", highlight=False)
