"""Commands `choirctl audit anchors|verify|rotate`."""

import asyncio
from typing import Annotated

import typer

from choir_common.errors import ChoirError, NotFound
from choir_common.i18n import _, ngettext
from choir_common.target import Target
from choir_common.wire.audit import AnchorList, AnchorView
from choir_common.wire.operator import LogVerification
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.language import server_text
from choirctl.output.printing import (
    escape,
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
    rows = table(_("ANCHOR"), _("TIME"), _("LOGS"), _("ROOT"), _("STATE"))
    for anchor in listing.anchors:
        time = f"{anchor.at.astimezone():%Y-%m-%d %H:%M}"
        rows.add_row(
            str(anchor.number), time, str(anchor.logs), escape(anchor.root), escape(_state(anchor))
        )
    print_rows(rows, _("No anchor yet. The first one is made a day after the first session."))


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
            _(
                "No stored anchor has the root {root!r}. The logs were replaced since you "
                "received it, or it belongs to another Choir."
            ).format(root=root[:64])
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
            stderr_console().print(server_text(fault), markup=False)
        raise typer.Exit(ChoirError.exit_code)


def rotate(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """Make a new key that signs the logs from now on.

    Older keys stay in audit-keys.json, so that older signatures can be checked.
    """
    listing = asyncio.run(_rotate(find_target(ctx, home, url)))
    if as_json:
        print_json(listing)
    else:
        stderr_console().print(
            _("Key {keys} signs from now on.").format(keys=listing.keys[-1]), markup=False
        )


def _print_summary(
    listing: AnchorList, logs: list[LogVerification], matching: list[AnchorView]
) -> None:
    console = stdout_console()
    intact = sum(log.ok for log in logs)
    erased = sum(log.erased_payloads for log in logs)
    console.print(
        _("Logs: {intact} of {count} intact, {count2}.").format(
            intact=intact,
            count=len(logs),
            count2=ngettext("{count} erased event", "{count} erased events", erased),
        )
    )
    good = sum(not anchor.fault for anchor in listing.anchors)
    console.print(
        _("Anchors: {good} of {count} intact.").format(good=good, count=len(listing.anchors))
    )
    deleted = sum(anchor.deleted_logs for anchor in listing.anchors)
    if deleted:
        console.print(
            _(
                "Deleted since they were anchored: {count}. `retention.sessions` in config.json "
                "does that."
            ).format(count=ngettext("{count} log head", "{count} log heads", deleted))
        )
    unknown = sorted({key for log in logs for key in log.unknown_keys})
    if unknown:
        console.print(
            _(
                "Keys that are not on this machine: {names}. Their signatures were not checked; "
                "copy audit-keys.json of the other machine to check them."
            ).format(names=", ".join(unknown)),
            markup=False,
        )
    for anchor in matching:
        console.print(_("The root is that of anchor {number}.").format(number=anchor.number))


def _state(anchor: AnchorView) -> str:
    if anchor.fault:
        return server_text(anchor.fault)
    return _("intact") if anchor.signed else _("its key is not on this machine")


def _anchor_fault(anchor: AnchorView) -> str:
    return _("Anchor {number}: {fault}.").format(number=anchor.number, fault=anchor.fault)


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
