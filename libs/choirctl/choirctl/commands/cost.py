"""Command `choirctl cost`: what model calls have cost, by day, agent, job or model."""

import asyncio
import csv
import sys
from datetime import date
from enum import StrEnum
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.money import CostGroup, CostLine, CostReport
from choir_common.wire.money_text import format_cost
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.printing import escape, print_json, print_rows, stderr_console, table
from choirctl.output.state_words import state_text


class Group(StrEnum):
    """What a line of the report is about."""

    DAY = "day"
    MONTH = "month"
    AGENT = "agent"
    SESSION = "session"
    JOB = "job"
    MODEL = "model"
    KIND = "kind"


HEADS = {
    "day": _("DAY"),
    "month": _("MONTH"),
    "agent": _("AGENT"),
    "session": _("SESSION"),
    "job": _("JOB"),
    "model": _("MODEL"),
    "kind": _("KIND"),
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(cost)


def cost(
    ctx: typer.Context,
    by: Annotated[Group, typer.Option(help="What a line is about.")] = Group.DAY,
    since: Annotated[
        str | None, typer.Option(help="First day, such as 2026-11-01; default: 30 days ago.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Last day; default: today.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only this agent.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Only this model, by the provider's name.")
    ] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show what model calls have cost, in US dollars.

    Calls without a known price are listed with their tokens; the sums do not contain them.
    """
    period = {"since": _day(since), "until": _day(until)}
    place = find_target(ctx, home, url)
    report = asyncio.run(_read(place, by.value, agent=agent, model=model, **period))
    if as_json:
        print_json(report)
    elif as_csv:
        _print_csv(report)
    else:
        _print_table(report)
        _print_unpriced(report)


async def _read(place: Target, by: CostGroup, **query: str | None) -> CostReport:
    async with connect(place) as api:
        return await api.costs.report(by, **query)


def _day(text: str | None) -> str | None:
    """Return a day in ISO 8601; raises InvalidRequest."""
    if text is None:
        return None
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise InvalidRequest(
            _("{text!r} is no day; write it as 2026-11-01.").format(text=text[:40])
        ) from None


def _print_table(report: CostReport) -> None:
    rows = table(
        HEADS.get(report.by, report.by.upper()),
        _("CALLS"),
        _("PROMPT"),
        _("CACHED"),
        _("OUTPUT"),
        _("COST"),
    )
    for line in report.lines:
        group = state_text(line.group) if report.by == Group.KIND.value else line.group
        rows.add_row(*_cells(line, escape(group) or "-"))
    if len(report.lines) > 1:
        rows.add_row(*_cells(report.total, _("[bold]total[/]")))
    print_rows(
        rows,
        _("There are no model calls from {since} to {until}.").format(
            since=report.since, until=report.until
        ),
    )
    if report.total.estimated_calls:
        stderr_console().print(
            _(
                "The usage of {estimated_calls:,} calls was lost in a crash; what was reserved "
                "for them is charged."
            ).format(estimated_calls=report.total.estimated_calls),
            markup=False,
        )


def _print_unpriced(report: CostReport) -> None:
    """Name what has no price, so that nobody takes its calls for free."""
    if report.unpriced:
        stderr_console().print(
            _(
                "The prices of {names} are unknown: set `prices` there in config.json (0 for "
                "what is free)."
            ).format(names=", ".join(report.unpriced)),
            markup=False,
        )


def _cells(line: CostLine, name: str) -> tuple[str, ...]:
    counts = (line.calls, line.prompt_tokens, line.cached_tokens, line.completion_tokens)
    return (name, *(f"{count:,}" for count in counts), escape(format_cost(line)))


def _print_csv(report: CostReport) -> None:
    names = [name for name in CostLine.model_fields if name != "group"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([report.by, *names])
    for line in report.lines:
        writer.writerow([line.group, *(getattr(line, name) for name in names)])
