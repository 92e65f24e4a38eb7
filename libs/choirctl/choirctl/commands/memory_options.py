"""Options and requests shared by the `memory` commands."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from choirctl.api.control import ControlClient, connect
from choirctl.api.memory import MemoryClient
from choirctl.api.target import Target
from choirctl.arguments import complete_with

T = TypeVar("T")
NOTHING = "That memory is empty."


async def list_sessions(api: ControlClient) -> list[str]:
    """Return the ids of the newest sessions, for completion."""
    return [view.session_id for view in await api.sessions(None, 50)]


Store = Annotated[
    str,
    typer.Option(
        help="`knowledge`, or `session` for documents of its sessions.",
        autocompletion=lambda: ["knowledge", "session"],
    ),
]
OfSession = Annotated[
    str | None,
    typer.Option(help="Only of this session.", autocompletion=complete_with(list_sessions)),
]
SinceTime = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only from this date or time on.")
]
UntilTime = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Only before this time; a date includes that day."),
]
Expected = Annotated[
    int | None,
    typer.Option(
        "--expect-version", min=0, help="Only if it is at this version.", show_default=False
    ),
]


def send(place: Target, agent: str, request: Callable[[MemoryClient], Awaitable[T]]) -> T:
    """Send a request about one agent's memory, and return its result."""

    async def send_one() -> T:
        async with connect(place) as api:
            return await request(MemoryClient(api, place, agent))

    return asyncio.run(send_one())
