"""Commands `choirctl agent build|update|update-all`."""

import asyncio
from collections.abc import Awaitable
from typing import Protocol

import typer
from rich.table import Table

from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operations import OperationStarted, OperationView, RolloutReport
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import AgentId
from choirctl.output.language import server_text
from choirctl.output.operation_progress import await_operation, raise_failure
from choirctl.output.printing import escape, print_json, print_rows, stderr_console, table
from choirctl.output.state_words import state_text

COLOURS = {"built": "green", "redeployed": "green", "failed": "red"}
SHORT = 12


class Start(Protocol):
    """Starts the operation of a command."""

    def __call__(self, api: ControlClient, /) -> Awaitable[OperationStarted]: ...


def build(
    ctx: typer.Context, agent: AgentId, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Build an agent's image from its repositories.

    A running agent is not affected. Nothing is built if no repository has a new commit. `agent update`
    also restarts the agent with the image.
    """
    _carry_out(find_target(ctx, home, url), lambda api: api.agents.build(agent), as_json)


def update(
    ctx: typer.Context, agent: AgentId, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Build an agent's image, and restart it with that if it runs.

    It is stopped gracefully, and its session continues. If it does not start with the new image, the
    previous one is used again.
    """
    _carry_out(find_target(ctx, home, url), lambda api: api.agents.update(agent), as_json)


def update_all(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """Update every agent, one after the other.

    If one fails, the others are still updated; exits 1 then.
    """
    _carry_out(find_target(ctx, home, url), lambda api: api.agents.update_all(), as_json)


def _carry_out(place: Target, start: Start, as_json: bool) -> None:
    view = asyncio.run(_ask(place, start, as_json))
    report = RolloutReport.model_validate(view.result, strict=False) if view.result else None
    if as_json:
        print_json(view)
    elif report is not None:
        for agent in report.agents:
            for warning in agent.warnings:
                stderr_console().print(
                    _("Warning: {warning}").format(warning=server_text(warning)), markup=False
                )
            if agent.tools is not None:
                text = _("Tools of {agent_id}: {tools}").format(
                    agent_id=agent.agent_id, tools=agent.tools
                )
                stderr_console().print(text, markup=False, highlight=False)
        print_rows(_rows(report), _("No agent is configured."))
    raise_failure(view)


async def _ask(place: Target, start: Start, as_json: bool) -> OperationView:
    async with connect(place) as api:
        return await await_operation(api, await start(api), quiet=as_json)


def _rows(report: RolloutReport) -> Table:
    rows = table(_("AGENT"), _("OUTCOME"), _("IMAGE"), _("GLOBAL"), _("OWN"), _("WHY"))
    for agent in report.agents:
        colour, outcome = COLOURS.get(agent.outcome), state_text(agent.outcome)
        rows.add_row(
            agent.agent_id,
            f"[{colour}]{outcome}[/]" if colour else outcome,
            agent.image_version or "-",
            agent.global_repo_commit[:SHORT] or "-",
            agent.agent_repo_commit[:SHORT] or "-",
            escape(server_text(agent.reason)),
        )
    return rows
