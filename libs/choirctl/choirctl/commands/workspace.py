"""Commands `choirctl workspace list|reset`."""

import asyncio
import sys
from typing import Annotated

import typer

from choir_common.errors import InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.operations import (
    OperationView,
    ResetWorkspace,
    WorkspaceReset,
    WorkspaceView,
)
from choirctl.api.control import connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.arguments import WorkspaceName
from choirctl.output.language import tr
from choirctl.output.operation_progress import await_operation, raise_failure
from choirctl.output.printing import escape, print_json, print_rows, stderr_console
from choirctl.output.views import warning_lines, workspace_rows


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_workspaces)
    group.command("reset")(reset)
    app.add_typer(group, name="workspace", help="Show workspaces, and empty one.")


def list_workspaces(
    ctx: typer.Context, home: Home = None, url: Url = None, as_json: AsJson = False
) -> None:
    """List the workspaces with their paths, agents and sizes.

    Files in them that run commands when they are opened are named.
    """
    workspaces = asyncio.run(_list(find_target(ctx, home, url)))
    if as_json:
        print_json(workspaces)
    else:
        print_rows(workspace_rows(workspaces), _("No workspace is configured."))
        for line in warning_lines(workspaces):
            stderr_console().print(f"[yellow]{escape(line)}[/]", soft_wrap=True)


def reset(
    ctx: typer.Context,
    workspace: WorkspaceName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    restart: Annotated[
        bool, typer.Option("--restart", help="Restart the agent afterwards.")
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete everything in a workspace permanently.

    The agent that uses it is stopped first. Asks for the workspace's name as confirmation. Exits 5 for a
    protected directory. The operation continues in choird if you interrupt this command.
    """
    place = find_target(ctx, home, url)
    if not yes:
        _confirm(asyncio.run(_find(place, workspace)))
    request = ResetWorkspace(confirm=workspace, restart=restart)
    operation = asyncio.run(_reset(place, workspace, request, as_json))
    if as_json:
        print_json(operation)
    elif operation.result is not None:
        _print_result(WorkspaceReset.model_validate(operation.result, strict=False))
    raise_failure(operation)


def _confirm(workspace: WorkspaceView) -> None:
    if not sys.stdin.isatty():
        raise InvalidRequest(
            _("Nobody can be asked whether to delete everything in {path}. Say --yes.").format(
                path=workspace.path
            )
        )
    holder = (
        _(" Agent {agent_id} is stopped first.").format(agent_id=workspace.agent_id)
        if workspace.agent_id
        else ""
    )
    stderr_console().print(
        _("This permanently deletes all {files:,} files in {path}.{holder}").format(
            files=workspace.files, path=workspace.path, holder=holder
        ),
        markup=False,
    )
    if typer.prompt(tr(_("Type the workspace's name to continue")), err=True) != workspace.name:
        raise InvalidRequest(_("The name does not match; nothing was deleted."))


def _print_result(result: WorkspaceReset) -> None:
    if not result.left:
        stderr_console().print(
            _("{path} is empty: {removed:,} entries deleted.").format(
                path=result.path, removed=result.removed
            ),
            markup=False,
        )
    if result.stopped:
        how = _("started again") if result.restarted else _("stopped, and not started again")
        stderr_console().print(
            _("Agent {stopped} was {how}.").format(stopped=result.stopped, how=how), markup=False
        )


async def _list(place: Target) -> list[WorkspaceView]:
    async with connect(place) as api:
        return await api.workspaces()


async def _find(place: Target, name: str) -> WorkspaceView:
    workspaces = await _list(place)
    for workspace in workspaces:
        if workspace.name == name:
            return workspace
    names = ", ".join(workspace.name for workspace in workspaces)
    raise NotFound(
        _("There is no workspace {name!r} (there are {names}).").format(name=name, names=names)
    )


async def _reset(place: Target, name: str, request: ResetWorkspace, quiet: bool) -> OperationView:
    async with connect(place) as api:
        return await await_operation(api, await api.reset_workspace(name, request), quiet=quiet)
