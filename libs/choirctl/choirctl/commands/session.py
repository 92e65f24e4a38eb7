"""`choirctl session list|events|verify|compact`; next comes `control_api`."""

import asyncio
from typing import Annotated

import typer

from choir_common.errors import ChoirError, Conflict
from choir_common.wire.operator import CompactMemory, SessionView, Told, Verification
from choirctl.control_api import connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import err, out, print_json, print_json_line
from choirctl.views import event_line, session_rows

FOLLOW_EVERY_S = 0.5

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
    group.command("list")(list_sessions)
    group.command("events")(events)
    group.command("verify")(verify)
    group.command("compact")(compact)
    app.add_typer(
        group, name="session", help="Read and verify the logs of sessions, and sum one up."
    )


def list_sessions(
    ctx: typer.Context,
    agent: Annotated[
        str | None, typer.Argument(metavar="[AGENT]", help="Only this agent's.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first."""
    found = asyncio.run(_list(find_place(ctx, home, url), agent, limit))
    if as_json:
        print_json(found)
    else:
        out().print(session_rows(found))


def events(
    ctx: typer.Context,
    session: SessionId,
    after: Annotated[int, typer.Option(min=0, help="Begin after this revision.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as events come.")] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a session's log, oldest event first; with --json, one event a line."""
    asyncio.run(_events(find_place(ctx, home, url), session, after, follow, as_json))


def verify(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Check that a session's stored log is what was written: every hash, every link.

    Exits 1 when it is not.
    """
    found = asyncio.run(_verify(find_place(ctx, home, url), session))
    if as_json:
        print_json(found)
    elif found.ok:
        out().print(
            f"{session}: {found.events} events, chain intact up to revision {found.head_rev}."
        )
    if not found.ok:
        err().print(
            f"[red]{session}: the log is broken at revision {found.broken_at}[/]: {found.reason}"
        )
        raise typer.Exit(ChoirError.exit_code)


def compact(
    ctx: typer.Context,
    session: SessionId,
    lane: Annotated[
        str | None, typer.Option(help="`core:JOB`; else the conversation.", show_default=False)
    ] = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Have a running session sum up the older part of its working memory.

    The log keeps every event; only what the model is shown gets shorter. Exits 5 when it does not run.
    """
    told = asyncio.run(_compact(find_place(ctx, home, url), session, lane))
    if as_json:
        print_json(told)
    else:
        err().print(told.note, markup=False)


async def _compact(place: Place, session: str, lane: str | None) -> Told:
    async with connect(place) as api:
        found = await api.session(session)
        if found.ended_at is not None:
            raise Conflict(
                f"Session {session} is over ({found.status}); there is nothing to sum up."
            )
        return await api.compact(
            found.agent_id, CompactMemory(lane=lane, session_id=found.session_id)
        )


async def _list(place: Place, agent: str | None, limit: int) -> list[SessionView]:
    async with connect(place) as api:
        return await api.sessions(agent, limit)


async def _events(place: Place, session: str, after: int, follow: bool, as_json: bool) -> None:
    console = out()
    async with connect(place) as api:
        while True:
            page = await api.events(session, after)
            for event in page.items:
                if as_json:
                    print_json_line(event)
                else:
                    console.print(event_line(event), highlight=False)
            after = page.items[-1].rev if page.items else after
            if page.next is None:
                if not follow:
                    return
                await asyncio.sleep(FOLLOW_EVERY_S)


async def _verify(place: Place, session: str) -> Verification:
    async with connect(place) as api:
        return await api.verify(session)
