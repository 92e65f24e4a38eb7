"""`choirctl session list|show|events|cores|cancel|compact|verify`; next comes `control_api`."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated

import typer

from choir_common.errors import ChoirError, Conflict
from choir_common.wire.events import Event
from choir_common.wire.operator import CompactMemory, SessionView, Told, Verification
from choir_common.wire.rpc import StatusReport
from choirctl.app import add_group
from choirctl.arguments import OneAgent, SessionId
from choirctl.control_api import ControlApi, connect
from choirctl.place import AsJson, Home, Place, Url, find_place
from choirctl.printing import err, out, print_json, print_json_line
from choirctl.views import CORE, event_line, job_rows, session_facts, session_rows


def register(app: typer.Typer) -> None:
    """Add the group."""
    add_group(
        app,
        "session",
        ("list", list_sessions),
        ("show", show),
        ("events", events),
        ("cores", cores),
        ("cancel", cancel),
        ("compact", compact),
        ("verify", verify),
    )


def list_sessions(
    ctx: typer.Context,
    agent: OneAgent = None,
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
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on as events come, until the session is over."),
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a session's log, oldest event first: revision, time, lane, type, and what it is about.

    With --json, each whole event on a line of its own.
    """
    asyncio.run(_events(find_place(ctx, home, url), session, after, follow, as_json))


def show(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show one session: whose it is, how it stands, and where its log ends."""
    found = asyncio.run(_show(find_place(ctx, home, url), session))
    if as_json:
        print_json(found)
    else:
        out().print(session_facts(found))


def cores(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the core jobs of a running session: name, state, step, and what its budgets leave.

    One that has ended stays for a minute. Exits 5 when the session does not run.
    """
    jobs = asyncio.run(_cores(find_place(ctx, home, url), session))
    if as_json:
        print_json(jobs)
    elif jobs:
        out().print(job_rows(jobs))
    else:
        err().print("No jobs.")


def cancel(
    ctx: typer.Context,
    session: SessionId,
    job: Annotated[str, typer.Argument(metavar="JOB", help="The core job's name.")],
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a core job of a running session, by name; everything else goes on.

    Exits 5 when the session does not run.
    """
    told = asyncio.run(_cancel(find_place(ctx, home, url), session, job))
    if as_json:
        print_json(told)
    else:
        err().print(told.note, markup=False)


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
        found = await _running(api, session)
        return await api.compact(
            found.agent_id, CompactMemory(lane=lane, session_id=found.session_id)
        )


async def _show(place: Place, session: str) -> SessionView:
    async with connect(place) as api:
        return await api.session(session)


async def _cores(place: Place, session: str) -> list[StatusReport]:
    async with connect(place) as api:
        agent = await api.agent((await _running(api, session)).agent_id)
        return [lane for lane in agent.lanes if lane.lane.startswith(CORE)]


async def _cancel(place: Place, session: str, job: str) -> Told:
    async with connect(place) as api:
        return await api.cancel((await _running(api, session)).agent_id, job)


async def _running(api: ControlApi, session: str) -> SessionView:
    """Return a session that is not over. Raises NotFound, Conflict."""
    found = await api.session(session)
    if found.ended_at is not None:
        raise Conflict(f"Session {session} is over ({found.status}); nothing of it runs any more.")
    return found


async def _list(place: Place, agent: str | None, limit: int) -> list[SessionView]:
    async with connect(place) as api:
        return await api.sessions(agent, limit)


async def _events(place: Place, session: str, after: int, follow: bool, as_json: bool) -> None:
    console = out()
    async with connect(place) as api:
        news = api.follow_events(session, after) if follow else _stored(api, session, after)
        async for event in news:
            if as_json:
                print_json_line(event)
            else:
                console.print(event_line(event), highlight=False)


async def _stored(api: ControlApi, session: str, after: int) -> AsyncIterator[Event]:
    """Yield the events there are, page by page."""
    while True:
        page = await api.events(session, after)
        for event in page.items:
            yield event
        if page.next is None:
            return
        after = page.next


async def _verify(place: Place, session: str) -> Verification:
    async with connect(place) as api:
        return await api.verify(session)
