"""Commands `choirctl operation list|show`: builds, updates and resets that run in choird."""

import asyncio
from typing import Annotated

import typer

from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operations import OperationView
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import OperationId
from choirctl.output.operation_progress import raise_failure, show_progress
from choirctl.output.printing import print_colored_json, print_json, print_rows, stdout_console
from choirctl.output.views import operation_facts, operation_rows


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(app, "operation", ("list", list_operations), ("show", show))


def list_operations(
    ctx: typer.Context,
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, newest first.")] = 20,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List builds, updates and resets, newest first."""
    operations = asyncio.run(_list(find_target(ctx, home, url), limit))
    if as_json:
        print_json(operations)
    else:
        print_rows(operation_rows(operations), _("There are no operations yet."))


def show(
    ctx: typer.Context,
    operation: OperationId,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Show progress until it ends.")
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress or the result of an operation.

    With --follow, exits with the code of the command that started it.
    """
    view = asyncio.run(_show(find_target(ctx, home, url), operation, follow, quiet=as_json))
    if as_json:
        print_json(view)
    else:
        stdout_console().print(operation_facts(view))
        if view.result:
            print_colored_json(view.result)
    if follow:
        raise_failure(view)


async def _list(place: Target, limit: int) -> list[OperationView]:
    async with connect(place) as api:
        return await api.operations.list(limit)


async def _show(place: Target, operation: str, follow: bool, quiet: bool) -> OperationView:
    async with connect(place) as api:
        view = await api.operations.get(operation)
        if follow and view.status == "running":
            return await show_progress(api, operation, quiet=quiet)
        return view
