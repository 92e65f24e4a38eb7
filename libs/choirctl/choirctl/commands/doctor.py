"""Command `choirctl doctor`: run every check of `health_checks` and show the results."""

import asyncio

import typer

from choir_common.errors import ChoirError
from choir_common.i18n import _
from choir_common.target import Target
from choir_local.home import Home as LocalHome
from choir_local.settings import LocalSettings
from choirctl.api.target import AsJson, Home, find_target
from choirctl.output.printing import escape, print_json, print_rows, table
from choirctl.output.state_words import state_text
from choirctl.output.views import OUTCOME_COLOURS
from choirctl.start.health import Finding, Installation
from choirctl.start.health_checks import query_running, run_checks


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(ctx: typer.Context, home: Home = None, as_json: AsJson = False) -> None:
    """Check for problems; sends one request to the model.

    Exits 1 if a check fails; a warning only means that a feature will be missing.
    """
    place = find_target(ctx, home)
    settings = LocalSettings.load().model_copy(update={"home": place.home})
    findings = asyncio.run(_examine(place, settings))
    ok = all(finding.outcome != "fail" for finding in findings)
    if as_json:
        checks = [finding.model_dump() for finding in findings]
        print_json({"ok": ok, "checks": checks})
    else:
        _show(findings)
    if not ok:
        raise typer.Exit(ChoirError.exit_code)


async def _examine(place: Target, settings: LocalSettings) -> list[Finding]:
    return await run_checks(
        Installation(LocalHome(place.home), settings, await query_running(place))
    )


def _show(findings: list[Finding]) -> None:
    rows = table("", _("CHECK"), _("FOUND"))
    for finding in findings:
        colour = OUTCOME_COLOURS[finding.outcome]
        rows.add_row(
            f"[{colour}]{state_text(finding.outcome)}[/]", finding.id, escape(finding.detail)
        )
    print_rows(rows)
