"""Options and requests shared by the `memory` commands."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer
from pydantic import TypeAdapter

from choir_client import AsyncMemory
from choir_common.i18n import _
from choir_common.target import Target
from choir_common.wire.model import JsonObject
from choirctl.api.control import ControlClient, connect
from choirctl.arguments import complete_with

T = TypeVar("T")
JSON_OBJECT: TypeAdapter[JsonObject] = TypeAdapter(JsonObject)
NOTHING = _("That memory is empty.")


async def list_sessions(api: ControlClient) -> list[str]:
    """Return the ids of the newest sessions, for completion."""
    return [view.session_id for view in await api.sessions.list(None, 50)]


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


def send(place: Target, agent: str, request: Callable[[AsyncMemory], Awaitable[T]]) -> T:
    """Send a request about one agent's memory, and return its result."""

    async def send_one() -> T:
        async with connect(place) as api:
            return await request(api.memory(agent))

    return asyncio.run(send_one())
