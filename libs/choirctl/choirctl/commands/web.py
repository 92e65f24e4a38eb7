"""Commands `choirctl web`, `choirctl web link|sessions|revoke`."""

import asyncio
from typing import Annotated

import typer

from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.web import WebLinkView, WebSessionView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.printing import (
    escape,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)

NO_SESSIONS = _("No browser is signed in; `choirctl web` prints a link.")
Person = Annotated[
    str | None,
    typer.Option(help="A person in `people` of config.json, for the own conversations only."),
]
BrowserId = Annotated[
    str, typer.Argument(metavar="ID", help="As `choirctl web sessions` shows it.")
]


def register(app: typer.Typer) -> None:
    """Add the group; its name alone prints a link."""
    add_group(
        app,
        "web",
        ("link", print_link),
        ("sessions", list_sessions),
        ("revoke", revoke),
        alone=print_link_alone,
    )


def print_link_alone(
    ctx: typer.Context,
    person: Person = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a one-time link to the web page."""
    if ctx.invoked_subcommand is None:
        print_link(ctx, person, home, url, as_json)


def print_link(
    ctx: typer.Context,
    person: Person = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a one-time link to the web page.

    It opens one browser within 15 minutes. Without --person the browser has all rights of the operator.
    """
    view = asyncio.run(_create_link(find_target(ctx, home, url), person))
    if as_json:
        print_json(view)
        return
    stdout_console().print(view.url, markup=False, soft_wrap=True)
    whose = (
        _("{person}'s conversations").format(person=view.person)
        if view.person
        else _("everything, as the operator")
    )
    stderr_console().print(
        _("It works once, until {astimezone:%H:%M}, for {whose}.").format(
            astimezone=view.expires_at.astimezone(), whose=whose
        ),
        markup=False,
    )


def list_sessions(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the browsers that are signed in to the web page."""
    views = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(views)
        return
    rows = table(_("ID"), _("PERSON"), _("LAST USED"), _("SIGNED IN"), _("EXPIRES"), _("BROWSER"))
    for view in views:
        rows.add_row(
            view.web_session_id,
            escape(view.person or _("operator")),
            f"{view.last_used_at.astimezone():%Y-%m-%d %H:%M}",
            f"{view.created_at.astimezone():%Y-%m-%d %H:%M}",
            f"{view.expires_at.astimezone():%Y-%m-%d}",
            escape(view.user_agent),
        )
    print_rows(rows, NO_SESSIONS)


def revoke(
    ctx: typer.Context,
    browser: BrowserId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Sign a browser out of the web page."""
    asyncio.run(_revoke(find_target(ctx, home, url), browser))
    if as_json:
        print_json({"revoked": browser})
    else:
        stderr_console().print(_("The browser is signed out."))


async def _create_link(place: Target, person: str | None) -> WebLinkView:
    async with connect(place) as api:
        return await api.create_web_link(person)


async def _list(place: Target) -> list[WebSessionView]:
    async with connect(place) as api:
        return await api.web_sessions()


async def _revoke(place: Target, web_session_id: str) -> None:
    async with connect(place) as api:
        await api.revoke_web_session(web_session_id)
