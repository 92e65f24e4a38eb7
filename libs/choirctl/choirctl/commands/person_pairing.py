"""Commands `choirctl person pair|unpair`."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.pairing import DecidePairing, PairingView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.printing import print_json, print_rows, stderr_console, table

NOBODY = _("Nobody waits for a decision.")


def pair(
    ctx: typer.Context,
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="Allow the user with this code to talk.")
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the users who wait; also without a code.")
    ] = False,
    deny: Annotated[
        str | None,
        typer.Option(metavar="CODE", help="Refuse the user with this code.", show_default=False),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Allow or refuse an unknown user, or list those who wait.

    Gateways with `pairing` in config.json give unknown users a code, which is valid for one hour. Names are
    chosen by the users themselves and prove nothing.
    """
    if (code is not None) + (deny is not None) + list_ > 1:
        raise InvalidRequest(_("Say one of CODE, --deny CODE and --list."))
    place, decided = find_target(ctx, home, url), code or deny
    if decided is None:
        waiting = asyncio.run(_list(place))
        if as_json:
            print_json(waiting)
        else:
            print_rows(_rows(waiting), NOBODY)
        return
    view = asyncio.run(_decide(place, DecidePairing(code=decided, allow=deny is None)))
    if as_json:
        print_json(view)
        return
    done = (
        _("{dm} can talk with {agent} as a {role}.").format(
            dm=view.dm, agent=view.agent, role=view.role
        )
        if deny is None
        else _("Refused: user {user} of {gateway}.").format(user=view.user, gateway=view.gateway)
    )
    stderr_console().print(done, markup=False)


def unpair(
    ctx: typer.Context,
    dm: Annotated[
        str,
        typer.Argument(metavar="CONVERSATION", help="As `choirctl person list` shows it."),
    ],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take the conversation of a paired user back. What was said is kept; `person erase` erases it."""
    asyncio.run(_unpair(find_target(ctx, home, url), dm))
    if as_json:
        print_json({"dm": dm})
    else:
        stderr_console().print(_("{dm} has no conversation any more.").format(dm=dm), markup=False)


def _rows(waiting: Sequence[PairingView]) -> Table:
    rows = table(
        _("CODE"), _("GATEWAY"), _("USER"), _("NAME (UNPROVEN)"), _("AGENT"), _("ROLE"), _("UNTIL")
    )
    for it in waiting:
        until = it.expires_at.astimezone().strftime("%H:%M")
        rows.add_row(it.code, it.gateway, it.user, it.user_name or "-", it.agent, it.role, until)
    return rows


async def _list(place: Target) -> list[PairingView]:
    async with connect(place) as api:
        return await api.people.pairings()


async def _decide(place: Target, body: DecidePairing) -> PairingView:
    async with connect(place) as api:
        return await api.people.decide_pairing(body)


async def _unpair(place: Target, dm: str) -> None:
    async with connect(place) as api:
        await api.people.remove_pairing(dm)
