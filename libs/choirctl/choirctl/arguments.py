"""Arguments shared by several commands, with shell completion of existing names. Used by the commands.

A completion queries the running Choir with a short timeout, and offers nothing if that fails.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer.models import OptionInfo

from choir_common.errors import ChoirError
from choir_common.wire.configuring import ConfigView
from choirctl.control_api import ControlApi, connect, parse
from choirctl.place import Place, find_place
from choirctl.views import CORE

ASK_S = 2.0  # a slower completion is useless: the user types the name faster
RECENT = 50

Names = Callable[[ControlApi], Awaitable[Iterable[str]]]


async def _agents(api: ControlApi) -> list[str]:
    return [view.agent_id for view in await api.agents()]


async def _sessions(api: ControlApi) -> list[str]:
    return [view.session_id for view in await api.sessions(None, RECENT)]


async def _pending(api: ControlApi) -> list[str]:
    return [view.approval_id for view in await api.approvals() if view.status == "pending"]


async def _operations(api: ControlApi) -> list[str]:
    return [view.operation_id for view in await api.operations(RECENT)]


async def _workspaces(api: ControlApi) -> list[str]:
    return [view.name for view in await api.workspaces()]


async def _jobs(api: ControlApi) -> list[str]:
    lanes = [lane.lane for view in await api.agents() for lane in view.lanes]
    return [lane.removeprefix(CORE) for lane in lanes if lane.startswith(CORE)]


def _configured(section: str) -> Names:
    """Return a function that lists the names in a section of the active configuration."""

    async def names(api: ControlApi) -> Iterable[str]:
        view = parse(await api.send("GET", "/v1/config"), ConfigView)
        found = view.config.get(section)
        return found if isinstance(found, dict) else ()

    return names


async def _models(api: ControlApi) -> list[str]:
    return [view.name for view in await api.models() if view.kind == "llm"]


async def _voices(api: ControlApi) -> list[str]:
    return [view.name for view in await api.voices()]


def completed_by(names: Names) -> Callable[[typer.Context, str], list[str]]:
    """Return a typer completion function that offers the names returned by `names`."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            found = asyncio.run(_ask(_place(ctx), names))
        except (ChoirError, OSError, TimeoutError):
            # an error message would appear in the middle of the user's command line
            return []
        return sorted(name for name in found if name.startswith(incomplete))

    return complete


async def _ask(place: Place, names: Names) -> Iterable[str]:
    async with asyncio.timeout(ASK_S), connect(place) as api:
        return await names(api)


def _place(ctx: typer.Context) -> Place:
    """Return the selected Choir; during completion the callback for global options has not run."""
    given = ctx.find_root().params | {k: v for k, v in ctx.params.items() if v is not None}
    home, url = given.get("home"), given.get("url")
    return find_place(ctx, Path(home) if home else None, url)


AgentId = Annotated[
    str,
    typer.Argument(metavar="AGENT", help="The agent's id.", autocompletion=completed_by(_agents)),
]
OneAgent = Annotated[
    str | None,
    typer.Argument(
        metavar="AGENT", help="Only this agent's.", autocompletion=completed_by(_agents)
    ),
]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="The session's id.", autocompletion=completed_by(_sessions)
    ),
]
ApprovalId = Annotated[
    str,
    typer.Argument(
        metavar="APPROVAL", help="The request's id.", autocompletion=completed_by(_pending)
    ),
]
ModelName = Annotated[
    str, typer.Option("--llm", help="Model, by name.", autocompletion=completed_by(_models))
]
OperationId = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION", help="The operation's id.", autocompletion=completed_by(_operations)
    ),
]
WorkspaceName = Annotated[
    str,
    typer.Argument(
        metavar="WORKSPACE",
        help="The workspace, by name.",
        autocompletion=completed_by(_workspaces),
    ),
]
OneJob = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="Only this core job.",
        show_default=False,
        autocompletion=completed_by(_jobs),
    ),
]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The core job's name.", autocompletion=completed_by(_jobs)),
]


def chosen(option: str, help_: str, section: str) -> OptionInfo:
    """Return an option that takes a name from a section of config.json, with completion."""
    found: OptionInfo = typer.Option(
        option, help=help_, autocompletion=completed_by(_configured(section))
    )
    return found


VoiceName = Annotated[
    str,
    typer.Argument(metavar="VOICE", help="Voice, by name.", autocompletion=completed_by(_voices)),
]
