"""Commands `choirctl approval list|show|approve|reject|rollback`; see docs/design/approvals.md."""

import asyncio
from typing import Annotated, Literal

import typer
from rich.table import Table

from choir_common.approvals import (
    LineKind,
    escape_lines,
    request_lines,
    request_summary,
)
from choir_common.errors import Conflict, InvalidRequest
from choir_common.grants import parse_days, parse_scope
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.model import JsonObject
from choir_common.wire.operator import ApprovalView, Decision
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import ApprovalId
from choirctl.output.language import server_text
from choirctl.output.printing import (
    escape,
    format_age,
    print_json,
    print_rows,
    stdout_console,
    table,
)
from choirctl.output.state_words import state_text

Verdict = Literal["approve", "reject"]
WHO_READS = 12  # characters of a digest, enough for a person to compare
STYLES = {LineKind.HEAD: "bold", LineKind.PLACE: "cyan", LineKind.OLD: "red", LineKind.NEW: "green"}


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "approval",
        ("list", list_approvals),
        ("show", show),
        ("approve", approve),
        ("reject", reject),
        ("rollback", roll_back),
    )


def list_approvals(
    ctx: typer.Context,
    everything: Annotated[bool, typer.Option("--all", help="Include decided requests.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the requests that wait for a decision."""
    views = asyncio.run(_list(find_target(ctx, home, url)))
    requests = [view for view in views if everything or view.status == "pending"]
    if as_json:
        print_json(requests)
    else:
        print_rows(_rows(requests), _("No request is pending."))


def show(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a request completely: exactly what would be approved."""
    view = asyncio.run(_show(find_target(ctx, home, url), approval))
    if as_json:
        print_json(_data(view))
    else:
        _print_request(view)


def approve(
    ctx: typer.Context,
    approval: ApprovalId,
    scope: Annotated[
        str,
        typer.Option(help="Later calls that are covered, too.", metavar="once|job|session|always"),
    ] = "once",
    lifetime: Annotated[
        str | None,
        typer.Option("--for", help="Lifetime of the scope always. [default: 30d]", metavar="DAYS"),
    ] = None,
    value: Annotated[
        list[str] | None,
        typer.Option(
            help="A value that an MCP server asks for; repeat it for several.", metavar="NAME=VALUE"
        ),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Approve a request exactly as shown. It is executed, and the agent is notified."""
    decision = Decision(
        scope=parse_scope(scope),
        days=parse_days(lifetime) if lifetime else None,
        values=_read_values(value) if value else None,
    )
    _decide(find_target(ctx, home, url), approval, "approve", decision, as_json)


def reject(
    ctx: typer.Context,
    approval: ApprovalId,
    dismiss: Annotated[
        bool,
        typer.Option("--dismiss", help="Close the question of an MCP server without an answer."),
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Reject a request. The decision is recorded, and the agent is notified."""
    _decide(find_target(ctx, home, url), approval, "reject", Decision(dismiss=dismiss), as_json)


def _read_values(words: list[str]) -> JsonObject:
    pairs = [word.partition("=") for word in words]
    if not all(name and equals for name, equals, _ in pairs):
        raise InvalidRequest(_("--value is NAME=VALUE."))
    return {name: text for name, _, text in pairs}


def _data(view: ApprovalView) -> ApprovalView:
    """Return the request as it was made: programs need no text that is spelled out for people."""
    return view.model_copy(update={"lines": ()})


def _decide(
    place: Target, approval: str, verdict: Verdict, decision: Decision, as_json: bool
) -> None:
    view = asyncio.run(_send(place, approval, verdict, decision, as_json))
    if as_json:
        print_json(_data(view))
        return
    stdout_console().print(f"{view.approval_id}: {state_text(view.status)}.")
    if view.detail:
        stdout_console().print(
            escape_lines(server_text(view.detail)), markup=False, highlight=False
        )


def roll_back(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Roll back what was approved and applied.

    It is refused if later changes depend on it, so none is lost.
    """
    view = asyncio.run(_roll_back(find_target(ctx, home, url), approval))
    if as_json:
        print_json(_data(view))
    else:
        stdout_console().print(f"{view.approval_id}: {state_text(view.state)}.")


async def _list(place: Target) -> list[ApprovalView]:
    async with connect(place) as api:
        return await api.approvals.list()


async def _show(place: Target, approval: str) -> ApprovalView:
    async with connect(place) as api:
        return await api.approvals.get(approval)


async def _roll_back(place: Target, approval: str) -> ApprovalView:
    async with connect(place) as api:
        return await api.approvals.roll_back(approval)


async def _send(
    place: Target, approval: str, verdict: Verdict, decision: Decision, as_json: bool
) -> ApprovalView:
    async with connect(place) as api:
        view = await api.approvals.get(approval)
        if view.status != "pending":
            raise Conflict(_already(view))
        if not as_json:
            _print_request(view)
        if verdict == "approve":
            return await api.approvals.approve(view, decision)
        return await api.approvals.reject(view, decision)


def _already(view: ApprovalView) -> str:
    if view.status == "expired":
        return _("{approval_id} expired without a decision; the agent may ask again.").format(
            approval_id=view.approval_id
        )
    return _("{approval_id} was {status} by {decided_by} already.").format(
        approval_id=view.approval_id, status=state_text(view.status), decided_by=view.decided_by
    )


def _rows(views: list[ApprovalView]) -> Table:
    rows = table(_("APPROVAL"), _("AGENT"), _("ASKS FOR"), _("STATUS"), _("ASKED"), _("DECIDED BY"))
    for view in views:
        rows.add_row(
            view.approval_id,
            view.agent_id,
            _summary(view),
            state_text(view.state),
            format_age(view.created_at),
            view.decided_by or "-",
        )
    return rows


def _print_request(view: ApprovalView) -> None:
    """Print a request: the agent, every line that the digest covers, and its result."""
    console = stdout_console()
    gist = request_summary(view.request_type, view.payload)
    console.print(f"{view.approval_id}  {gist}  [{state_text(view.state)}]", markup=False)
    console.print(
        _("agent {agent_id}, session {session_id}, {age} ago, digest {digest}…").format(
            agent_id=view.agent_id,
            session_id=view.session_id,
            age=format_age(view.created_at),
            digest=view.digest[:WHO_READS],
        ),
        highlight=False,
    )
    for line in request_lines(view.request_type, view.payload, view.basis):
        style = STYLES.get(line.mark)
        console.print(line.text, style=style, markup=False, highlight=False, soft_wrap=True)
    if view.detail:
        console.print(escape_lines(server_text(view.detail)), markup=False, highlight=False)


def _summary(view: ApprovalView) -> str:
    return escape(request_summary(view.request_type, view.payload))
