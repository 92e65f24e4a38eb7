"""Commands `choirctl client add|list|revoke`."""

import asyncio
from typing import Annotated

import typer
from pydantic import ValidationError

from choir_common.errors import InvalidRequest
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.api_clients import AddApiClient, AddedApiClient, ApiClientView
from choir_common.wire.validation_messages import error_messages
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.output.printing import (
    escape,
    format_age,
    print_json,
    print_rows,
    stderr_console,
    stdout_console,
    table,
)

NO_CLIENTS = _("There are no clients; `choirctl client add NAME` adds one.")
ClientName = Annotated[
    str, typer.Argument(metavar="NAME", help="As `choirctl client list` shows it.")
]


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "client", ("add", add), ("list", list_), ("revoke", revoke))


def add(
    ctx: typer.Context,
    client: Annotated[
        str,
        typer.Argument(metavar="NAME", help="Lower-case letters, digits and hyphens; 18 at most."),
    ],
    agent: Annotated[
        list[str] | None,
        typer.Option(help="An agent that it may talk with; repeatable.", show_default="all"),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="What it may do: chat, tools, embeddings, transcriptions; over MCP also jobs, memory, "
            "approvals. Repeatable.",
            show_default="chat",
        ),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(help="The person in `people` of config.json whose rights it has."),
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Give a program a token for the OpenAI-compatible API and MCP.

    The token is printed once; Choir stores a hash of it. The name of an existing client gets a new token, and
    the old one is void.
    """
    body = {"name": client, "person": person, "agents": agent or (), "scopes": scope or ("chat",)}
    try:
        request = AddApiClient.model_validate(body, strict=False)
    except ValidationError as error:
        raise InvalidRequest("; ".join(error_messages(error, "client"))) from None
    view = asyncio.run(_add(find_target(ctx, home, url), request))
    if as_json:
        print_json(view)
        return
    stdout_console().print(view.token, markup=False, soft_wrap=True)
    stderr_console().print(
        _(
            "This is the API key of {name}; it is not shown again. Base URL for OpenAI's "
            "API: {base_url}. MCP server: {mcp_url}/AGENT"
        ).format(name=view.client.name, base_url=view.base_url, mcp_url=view.mcp_url),
        markup=False,
        soft_wrap=True,
    )


def list_(ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False) -> None:
    """List the programs that have a token."""
    views = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(views)
        return
    rows = table(_("NAME"), _("PERSON"), _("AGENTS"), _("SCOPES"), _("CREATED"), _("LAST USED"))
    for view in views:
        rows.add_row(
            view.name,
            escape(view.person or _("operator")),
            ", ".join(view.agents) or _("all"),
            ", ".join(view.scopes),
            f"{view.created_at.astimezone():%Y-%m-%d}",
            format_age(view.last_used_at),
        )
    print_rows(rows, NO_CLIENTS)


def revoke(
    ctx: typer.Context,
    client: ClientName,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Take a program's token back; its open requests end. What was said stays."""
    asyncio.run(_revoke(find_target(ctx, home, url), client))
    if as_json:
        print_json({"revoked": client})
    else:
        stderr_console().print(_("The token is revoked."))


async def _add(place: Target, request: AddApiClient) -> AddedApiClient:
    async with connect(place) as api:
        return await api.add_client(request)


async def _list(place: Target) -> list[ApiClientView]:
    async with connect(place) as api:
        return await api.api_clients()


async def _revoke(place: Target, name: str) -> None:
    async with connect(place) as api:
        await api.revoke_client(name)
