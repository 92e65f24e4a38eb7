"""`choirctl approval list|show|approve|reject` (spec 17, 19.6); next comes `control_api`."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from choir_common.errors import Conflict
from choir_common.wire.operator import ApprovalView
from choirctl.app import add_group
from choirctl.arguments import ApprovalId
from choirctl.control_api import Verdict, connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import ago, out, print_json, print_rows, table

TEXTS = ("diffstat", "diff")
WHO_READS = 12  # characters of a digest that people compare


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
    everything: Annotated[
        bool, typer.Option("--all", help="Those that are decided as well.")
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what waits for a decision."""
    found = asyncio.run(_list(find_place(ctx, home, url)))
    wanted = [view for view in found if everything or view.status == "pending"]
    if as_json:
        print_json(wanted)
    else:
        print_rows(_rows(wanted), "Nothing waits for a decision.")


def show(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a request whole: what exactly would be approved."""
    view = asyncio.run(_show(find_place(ctx, home, url), approval))
    if as_json:
        print_json(view)
    else:
        _tell(view)


def approve(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Approve a request, exactly as it is shown. It is carried out, and the agent is told."""
    _decide(find_place(ctx, home, url), approval, "approve", as_json)


def reject(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Reject a request. It is recorded, and the agent is told."""
    _decide(find_place(ctx, home, url), approval, "reject", as_json)


def roll_back(
    ctx: typer.Context,
    approval: ApprovalId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take back what was approved and applied.

    Later changes that stand on it are refused, not lost.
    """
    view = asyncio.run(_roll_back(find_place(ctx, home, url), approval))
    if as_json:
        print_json(view)
    else:
        out().print(f"{view.approval_id}: {view.state}.")


def _decide(place: Place, approval: str, verdict: Verdict, as_json: bool) -> None:
    decided = asyncio.run(_send(place, approval, verdict, as_json))
    if as_json:
        print_json(decided)
    else:
        out().print(f"{decided.approval_id}: {decided.status}.")


async def _list(place: Place) -> list[ApprovalView]:
    async with connect(place) as api:
        return await api.approvals()


async def _show(place: Place, approval: str) -> ApprovalView:
    async with connect(place) as api:
        return await api.approval(approval)


async def _roll_back(place: Place, approval: str) -> ApprovalView:
    async with connect(place) as api:
        return await api.roll_back(approval)


async def _send(place: Place, approval: str, verdict: Verdict, as_json: bool) -> ApprovalView:
    async with connect(place) as api:
        shown = await api.approval(approval)
        if shown.status != "pending":
            raise Conflict(f"{approval} was {shown.status} by {shown.decided_by} already.")
        if not as_json:
            _tell(shown)
        # the digest of what was just shown: if it has become something else, nothing is decided
        return await api.decide(approval, verdict, shown.digest)


def _rows(views: list[ApprovalView]) -> Table:
    rows = table("APPROVAL", "AGENT", "ASKS FOR", "STATUS", "ASKED", "DECIDED BY")
    for view in views:
        rows.add_row(
            view.approval_id,
            view.agent_id,
            _gist(view),
            view.state.replace("_", " "),
            ago(view.created_at),
            view.decided_by or "-",
        )
    return rows


def _tell(view: ApprovalView) -> None:
    console = out()
    console.print(f"{view.approval_id}  {_gist(view)}  [{view.state}]", markup=False)
    console.print(f"agent {view.agent_id}, session {view.session_id}, {ago(view.created_at)} ago")
    console.print(f"digest {view.digest[:WHO_READS]}…", highlight=False)
    # escaped by JSON: what an agent wrote cannot move the cursor or colour a line
    console.print_json(data=view.payload, ensure_ascii=True)
    if view.basis:
        _tell_basis(view)
    if view.detail:
        console.print(view.detail.encode("ascii", "backslashreplace").decode(), markup=False)


def _tell_basis(view: ApprovalView) -> None:
    """Print what it would change: a difference line by line, the rest as JSON."""
    console = out()
    rest = {name: value for name, value in view.basis.items() if name not in TEXTS}
    console.print_json(data=rest, ensure_ascii=True)
    for name in TEXTS:
        for line in str(view.basis.get(name, "")).split("\n"):
            # escaped as in JSON, but for tabs
            shown = line.encode("unicode_escape").decode().replace("\\t", "\t")
            console.print(shown, markup=False, highlight=False, soft_wrap=True)


def _gist(view: ApprovalView) -> str:
    return escape(view.request_type.replace("_", " "))
