"""Commands `choirctl person list|show|link|unlink`."""

import asyncio
from typing import Annotated
from urllib.parse import quote

import typer
from pydantic import BaseModel
from rich.table import Table

from choir_client.failures import parse_response
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operator import Page
from choir_common.wire.people import LinkIdentity, PersonView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.printing import print_json, print_rows, stdout_console, table

PATH = "/v1/people"
NOBODY = _("config.json has no `people`; docs/people.md says how to add them.")
PersonName = Annotated[str, typer.Argument(metavar="PERSON", help="The person's name.")]
Gateway = Annotated[str, typer.Argument(metavar="GATEWAY", help="A gateway in config.json.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's id on that channel.")]


def list_people(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List people, their identities, and paired users."""
    people = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(people)
    else:
        print_rows(_rows(people), NOBODY)


def show(
    ctx: typer.Context,
    person: PersonName,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a person and the person's identities."""
    path = f"{PATH}/{quote(person, safe='')}"
    _print(asyncio.run(_send(find_target(ctx, home, url), "GET", path)), as_json)


def link(
    ctx: typer.Context,
    person: PersonName,
    gateway: Gateway,
    user: User,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Give a user of a gateway to a person, with the person's rights."""
    body = LinkIdentity(gateway=gateway, user=user)
    path = f"{PATH}/{quote(person, safe='')}/identities"
    _print(asyncio.run(_send(find_target(ctx, home, url), "POST", path, body)), as_json)


def unlink(
    ctx: typer.Context,
    person: PersonName,
    gateway: Gateway,
    user: User,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a linked user of a gateway from a person.

    Identities that config.json names are removed there.
    """
    parts = (quote(part, safe="") for part in (person, "identities", gateway, user))
    path = f"{PATH}/{'/'.join(parts)}"
    _print(asyncio.run(_send(find_target(ctx, home, url), "DELETE", path)), as_json)


def _print(person: PersonView, as_json: bool) -> None:
    if as_json:
        print_json(person)
    else:
        stdout_console().print(_rows([person]))


def _rows(people: list[PersonView]) -> Table:
    rows = table(_("PERSON"), _("ROLE"), _("GATEWAY"), _("USER"), _("FROM"), _("CONVERSATIONS"))
    for person in people:
        if not person.identities:
            rows.add_row(person.name, person.role, "-", "-", "-", "-")
        for identity in person.identities:
            dms = ", ".join(identity.dms) or "-"
            user = f"{identity.user} ({person.user_name})" if person.user_name else identity.user
            by = f" by {person.approved_by}" if person.approved_by else ""
            rows.add_row(
                *(person.name, person.role, identity.gateway, user),
                *(f"{identity.source}{by}", dms),
            )
    return rows


async def _list(place: Target) -> list[PersonView]:
    async with connect(place) as api:
        return parse_response(await api.connection.send("GET", PATH), Page[PersonView]).items


async def _send(place: Target, method: str, path: str, body: BaseModel | None = None) -> PersonView:
    async with connect(place) as api:
        return parse_response(await api.connection.send(method, path, body=body), PersonView)
