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
from choir_common.lanes import CORE_LANE_PREFIX, is_core
from choir_common.target import Target
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import find_target

COMPLETION_TIMEOUT_S = 2.0  # a slower completion is useless: the user types the name faster
RECENT = 50

NameSource = Callable[[ControlClient], Awaitable[Iterable[str]]]


async def _agents(api: ControlClient) -> list[str]:
    return [view.agent_id for view in await api.agents.list()]


async def _sessions(api: ControlClient) -> list[str]:
    return [view.session_id for view in await api.sessions.list(None, RECENT)]


async def _pending(api: ControlClient) -> list[str]:
    return [view.approval_id for view in await api.approvals.list() if view.status == "pending"]


async def _grants(api: ControlClient) -> list[str]:
    return [view.grant_id for view in await api.grants()]


async def _operations(api: ControlClient) -> list[str]:
    return [view.operation_id for view in await api.operations.list(RECENT)]


async def _workspaces(api: ControlClient) -> list[str]:
    return [view.name for view in await api.workspaces()]


async def _jobs(api: ControlClient) -> list[str]:
    lanes = [lane.lane for view in await api.agents.list() for lane in view.lanes]
    return [lane.removeprefix(CORE_LANE_PREFIX) for lane in lanes if is_core(lane)]


def _configured(section: str) -> NameSource:
    """Return a function that lists the names in a section of the active configuration."""

    async def names(api: ControlClient) -> Iterable[str]:
        view = await api.config.get()
        entries = view.config.get(section)
        return entries if isinstance(entries, dict) else ()

    return names


async def _models(api: ControlClient) -> list[str]:
    return [view.name for view in await api.models() if view.kind == "llm"]


async def _voices(api: ControlClient) -> list[str]:
    return [view.name for view in await api.voices()]


def complete_with(names: NameSource) -> Callable[[typer.Context, str], list[str]]:
    """Return a typer completion function that offers the names returned by `names`."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        try:
            candidates = asyncio.run(_ask(_target(ctx), names))
        except (ChoirError, OSError, TimeoutError):
            # an error message would appear in the middle of the user's command line
            return []
        return sorted(name for name in candidates if name.startswith(incomplete))

    return complete


async def _ask(place: Target, names: NameSource) -> Iterable[str]:
    async with asyncio.timeout(COMPLETION_TIMEOUT_S), connect(place) as api:
        return await names(api)


def _target(ctx: typer.Context) -> Target:
    """Return the selected Choir; during completion the callback for global options has not run."""
    params = ctx.find_root().params | {k: v for k, v in ctx.params.items() if v is not None}
    home, url = params.get("home"), params.get("url")
    return find_target(ctx, Path(home) if home else None, url)


AgentId = Annotated[
    str,
    typer.Argument(metavar="AGENT", help="The agent's id.", autocompletion=complete_with(_agents)),
]
OptionalAgentId = Annotated[
    str | None,
    typer.Argument(
        metavar="AGENT", help="Only this agent's.", autocompletion=complete_with(_agents)
    ),
]
SessionId = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="The session's id.", autocompletion=complete_with(_sessions)
    ),
]
ApprovalId = Annotated[
    str,
    typer.Argument(
        metavar="APPROVAL", help="The request's id.", autocompletion=complete_with(_pending)
    ),
]
GrantId = Annotated[
    str,
    typer.Argument(metavar="GRANT", help="The grant's id.", autocompletion=complete_with(_grants)),
]
ModelName = Annotated[
    str, typer.Option("--llm", help="Model, by name.", autocompletion=complete_with(_models))
]
TestedModel = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="Model, by name.", autocompletion=complete_with(_models)),
]
OperationId = Annotated[
    str,
    typer.Argument(
        metavar="OPERATION", help="The operation's id.", autocompletion=complete_with(_operations)
    ),
]
WorkspaceName = Annotated[
    str,
    typer.Argument(
        metavar="WORKSPACE",
        help="The workspace, by name.",
        autocompletion=complete_with(_workspaces),
    ),
]
OptionalJobName = Annotated[
    str | None,
    typer.Argument(
        metavar="JOB",
        help="Only this core job.",
        show_default=False,
        autocompletion=complete_with(_jobs),
    ),
]
JobName = Annotated[
    str,
    typer.Argument(metavar="JOB", help="The core job's name.", autocompletion=complete_with(_jobs)),
]


def config_name_option(option: str, help_: str, section: str) -> OptionInfo:
    """Return an option that takes a name from a section of config.json, with completion."""
    info: OptionInfo = typer.Option(
        option, help=help_, autocompletion=complete_with(_configured(section))
    )
    return info


VoiceName = Annotated[
    str,
    typer.Argument(metavar="VOICE", help="Voice, by name.", autocompletion=complete_with(_voices)),
]


ConversationName = Annotated[
    str | None,
    config_name_option("--dm", "Conversation of the agent, by name; default: its home.", "dms"),
]
