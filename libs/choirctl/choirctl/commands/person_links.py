"""Commands `choirctl person list|show|link|unlink`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from rich.table import Table

from choir_client import AsyncPeople
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.people import LinkIdentity, PersonView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.output.printing import print_json, print_rows, stdout_console, table

T = TypeVar("T")
NOBODY = _("config.json has no `people`; docs/people.md says how to add them.")
PersonName = Annotated[str, typer.Argument(metavar="PERSON", help="The person's name.")]
Gateway = Annotated[str, typer.Argument(metavar="GATEWAY", help="A gateway in config.json.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's id on that channel.")]


def list_people(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List people, their identities, and paired users."""
    people = _send(find_target(ctx, home, url), lambda people: people.list())
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
    _print(_send(find_target(ctx, home, url), lambda people: people.get(person)), as_json)


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
    identity = LinkIdentity(gateway=gateway, user=user)
    place = find_target(ctx, home, url)
    _print(_send(place, lambda people: people.link(person, identity)), as_json)


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
    place = find_target(ctx, home, url)
    _print(_send(place, lambda people: people.unlink(person, gateway, user)), as_json)


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
            by = _(" by {who}").format(who=person.approved_by) if person.approved_by else ""
            rows.add_row(
                *(person.name, person.role, identity.gateway, user),
                *(f"{identity.source}{by}", dms),
            )
    return rows


def _send(place: Target, request: Callable[[AsyncPeople], Awaitable[T]]) -> T:
    async def send() -> T:
        async with connect(place) as api:
            return await request(api.people)

    return asyncio.run(send())
