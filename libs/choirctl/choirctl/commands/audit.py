"""Commands `choirctl audit anchors|verify|rotate`."""

import asyncio
from typing import Annotated

import typer
from rich.markup import escape

from choir_common.errors import ChoirError, NotFound
from choir_common.target import Target
from choir_common.wire.audit import AnchorList, AnchorView
from choir_common.wire.operator import LogVerification
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.printing import (
    format_count,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "audit", ("anchors", anchors), ("verify", verify), ("rotate", rotate))


def anchors(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the anchors: one hash over all logs for each day."""
    listing = asyncio.run(_anchors(find_target(ctx, home, url)))
    if as_json:
        print_json(listing)
        return
    rows = table("ANCHOR", "TIME", "LOGS", "ROOT", "STATE")
    for anchor in listing.anchors:
        time = f"{anchor.at.astimezone():%Y-%m-%d %H:%M}"
        rows.add_row(
            str(anchor.number), time, str(anchor.logs), escape(anchor.root), escape(_state(anchor))
        )
    print_rows(rows, "No anchor yet. The first one is made a day after the first session.")


def verify(
    ctx: typer.Context,
    root: Annotated[
        str | None,
        typer.Option(help="A root that you received; it must be an anchor's.", show_default=False),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Check all anchors, and every log against them and its signatures.

    With --root, also that the anchor you received is still stored. Exits 1 if anything does not match.
    """
    listing, logs = asyncio.run(_verify(find_target(ctx, home, url)))
    matching = [anchor for anchor in listing.anchors if anchor.root == root]
    if root is not None and not matching:
        raise NotFound(
            f"No stored anchor has the root {root[:64]!r}. The logs were replaced since you received it, "
            "or it belongs to another Choir."
        )
    faults = [_anchor_fault(anchor) for anchor in listing.anchors if anchor.fault]
    faults += [f"{log.session_id}: {log.reason}" for log in logs if not log.ok]
    if as_json:
        print_json(
            {
                **listing.model_dump(mode="json"),
                "logs": [log.model_dump(mode="json") for log in logs],
                "faults": faults,
            }
        )
    else:
        _print_summary(listing, logs, matching)
    if faults:
        for fault in faults:
            stderr_console().print(fault, markup=False)
        raise typer.Exit(ChoirError.exit_code)


def rotate(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Make a new key that signs the logs from now on.

    Older keys stay in audit-keys.json, so that older signatures can be checked.
    """
    listing = asyncio.run(_rotate(find_target(ctx, home, url)))
    if as_json:
        print_json(listing)
    else:
        stderr_console().print(f"Key {listing.keys[-1]} signs from now on.", markup=False)


def _print_summary(
    listing: AnchorList, logs: list[LogVerification], matching: list[AnchorView]
) -> None:
    console = stdout_console()
    intact = sum(log.ok for log in logs)
    erased = sum(log.erased_payloads for log in logs)
    console.print(f"Logs: {intact} of {len(logs)} intact, {format_count(erased, 'erased event')}.")
    good = sum(not anchor.fault for anchor in listing.anchors)
    console.print(f"Anchors: {good} of {len(listing.anchors)} intact.")
    deleted = sum(anchor.deleted_logs for anchor in listing.anchors)
    if deleted:
        console.print(
            f"Deleted since they were anchored: {format_count(deleted, 'log head')}. "
            "`retention.sessions` in config.json does that."
        )
    unknown = sorted({key for log in logs for key in log.unknown_keys})
    if unknown:
        console.print(
            f"Keys that are not on this machine: {', '.join(unknown)}. Their signatures were not checked; "
            "copy audit-keys.json of the other machine to check them.",
            markup=False,
        )
    for anchor in matching:
        console.print(f"The root is that of anchor {anchor.number}.")


def _state(anchor: AnchorView) -> str:
    if anchor.fault:
        return anchor.fault
    return "intact" if anchor.signed else "its key is not on this machine"


def _anchor_fault(anchor: AnchorView) -> str:
    return f"Anchor {anchor.number}: {anchor.fault}."


async def _anchors(place: Target) -> AnchorList:
    async with connect(place) as api:
        return await api.anchors()


async def _rotate(place: Target) -> AnchorList:
    async with connect(place) as api:
        return await api.rotate_audit_key()


async def _verify(place: Target) -> tuple[AnchorList, list[LogVerification]]:
    async with connect(place) as api:
        listing = await api.anchors()
        return listing, [
            await api.sessions.verify(view.session_id) for view in await api.sessions.list()
        ]
