"""Commands `choirctl session list|show|events|cores|cancel|compact|verify`; `reset` is in `memory_forget`."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Annotated

import typer

from choir_client.operations import RECONNECT_S
from choir_common.errors import (
    ChoirError,
    Conflict,
    DeadlineExceeded,
    OutcomeUnknown,
    Unavailable,
)
from choir_common.i18n import _, ngettext
from choir_common.lanes import is_core
from choir_common.target import Target
from choir_common.wire.events import Event
from choir_common.wire.operator import CompactMemory, LogVerification, SessionView, SignalQueued
from choir_common.wire.rpc import StatusReport
from choirctl.api.control import ControlClient, connect
from choirctl.api.target import AsJson, Home, Url, find_target
from choirctl.app import add_group
from choirctl.arguments import ConversationName, JobName, OptionalAgentId, SessionId
from choirctl.commands.memory_forget import reset
from choirctl.output.language import server_text
from choirctl.output.printing import (
    print_json,
    print_json_line,
    print_rows,
    stderr_console,
    stdout_console,
)
from choirctl.output.state_words import state_text
from choirctl.output.views import (
    event_line,
    job_rows,
    session_facts,
    session_line,
    session_rows,
)

LOOK_S = 1.0
NO_SESSION = _("No agent has had a session yet.")


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
        ("reset", reset),
        ("verify", verify),
    )


def list_sessions(
    ctx: typer.Context,
    agent: OptionalAgentId = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, newest first.")] = 50,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow sessions that start, change state or end."),
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List sessions, newest first.

    With --follow, prints a line for each session that starts, changes state or ends, until Ctrl-C.
    """
    place = find_target(ctx, home, url)
    if follow:
        asyncio.run(_follow_list(place, agent, limit, as_json))
        return
    sessions = asyncio.run(_list(place, agent, limit))
    if as_json:
        print_json(sessions)
    else:
        print_rows(session_rows(sessions), NO_SESSION)


def events(
    ctx: typer.Context,
    session: SessionId,
    after: Annotated[int, typer.Option(min=0, help="Begin after this revision.")] = 0,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Follow new events until the session ends."),
    ] = False,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print a session's log, oldest event first.

    One line per event: revision, time, lane, type and main fields. With --json, each complete event on
    one line.
    """
    asyncio.run(_events(find_target(ctx, home, url), session, after, follow, as_json))


def show(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show one session: its agent, status and log head."""
    view = asyncio.run(_show(find_target(ctx, home, url), session))
    if as_json:
        print_json(view)
    else:
        stdout_console().print(session_facts(view))


def cores(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the core jobs of a running session.

    Shows name, state, skill, step and remaining budgets. A job that has ended is listed for a minute.
    Exits 5 if the session does not run.
    """
    jobs = asyncio.run(_cores(find_target(ctx, home, url), session))
    if as_json:
        print_json(jobs)
    else:
        print_rows(job_rows(jobs), _("No jobs."))


def cancel(
    ctx: typer.Context,
    session: SessionId,
    job: JobName,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel a core job of a running session, by name.

    Everything else continues. Exits 5 if the session does not run.
    """
    queued_signal = asyncio.run(_cancel(find_target(ctx, home, url), session, job))
    if as_json:
        print_json(queued_signal)
    else:
        stderr_console().print(server_text(queued_signal.note), markup=False)


def verify(
    ctx: typer.Context,
    session: SessionId,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Check that a session's stored log is unchanged.

    Verifies every hash of the chain, every signature, and the log's anchors. Names the first event that
    does not match, and exits 1.
    """
    verification = asyncio.run(_verify(find_target(ctx, home, url), session))
    if as_json:
        print_json(verification)
    elif verification.ok and verification.erased_at is not None:
        stdout_console().print(
            _(
                "{session}: the log was erased on {erased_at:%Y-%m-%d}. The hashes of its "
                "{erased_payloads} erased events are intact up to the session's head. "
                "{signature_text}"
            ).format(
                session=session,
                erased_at=verification.erased_at,
                erased_payloads=verification.erased_payloads,
                signature_text=_signature_text(verification),
            )
        )
    elif verification.ok:
        stdout_console().print(
            _(
                "{session}: {events} events, chain intact up to revision {head_rev}. "
                "{signature_text}"
            ).format(
                session=session,
                events=verification.events,
                head_rev=verification.head_rev,
                signature_text=_signature_text(verification),
            )
        )
    if not verification.ok:
        stderr_console().print(
            _("[red]{session}: the log is broken at revision {broken_at}[/]: {reason}").format(
                session=session,
                broken_at=verification.broken_at,
                reason=server_text(verification.reason or ""),
            )
        )
        raise typer.Exit(ChoirError.exit_code)


def compact(
    ctx: typer.Context,
    session: SessionId,
    lane: Annotated[
        str | None, typer.Option(help="`core:JOB`; else the conversation.", show_default=False)
    ] = None,
    dm: ConversationName = None,
    home: Home = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Make a running session summarize its older events.

    The log keeps every event; only the model's context gets shorter. Exits 5 if the session does not run.
    """
    queued_signal = asyncio.run(_compact(find_target(ctx, home, url), session, lane, dm))
    if as_json:
        print_json(queued_signal)
    else:
        stderr_console().print(server_text(queued_signal.note), markup=False)


def _signature_text(verification: LogVerification) -> str:
    """Return what the signatures and anchors of an intact log prove."""
    count = ngettext("{count} anchor", "{count} anchors", verification.anchors)
    anchored = (
        _("The log is in {count}.").format(count=count)
        if verification.anchors
        else _("No anchor covers it yet.")
    )
    if verification.unknown_keys:
        keys = ", ".join(verification.unknown_keys)
        anchored += _(
            " Signatures of key {keys} were not checked: it is not in audit-keys.json."
        ).format(keys=keys)
    match verification.signed_from:
        case None:
            return _(
                "No event is signed by a key of this machine; an anchor covers the log. {anchored}"
            ).format(anchored=anchored)
        case 1:
            return _("All events are signed. {anchored}").format(anchored=anchored)
        case rev:
            return _(
                "Events are signed from revision {rev}; an anchor or that one covers the rest. "
                "{anchored}"
            ).format(rev=rev, anchored=anchored)


async def _compact(place: Target, session: str, lane: str | None, dm: str | None) -> SignalQueued:
    async with connect(place) as api:
        view = await _require_running(api, session)
        return await api.agents.compact(
            view.agent_id, CompactMemory(lane=lane, session_id=view.session_id, dm=dm)
        )


async def _show(place: Target, session: str) -> SessionView:
    async with connect(place) as api:
        return await api.sessions.get(session)


async def _cores(place: Target, session: str) -> list[StatusReport]:
    async with connect(place) as api:
        agent = await api.agents.get((await _require_running(api, session)).agent_id)
        return [lane for lane in agent.lanes if is_core(lane.lane)]


async def _cancel(place: Target, session: str, job: str) -> SignalQueued:
    async with connect(place) as api:
        return await api.jobs.cancel((await _require_running(api, session)).agent_id, job)


async def _require_running(api: ControlClient, session: str) -> SessionView:
    """Return a session. Raises NotFound if it does not exist, Conflict if it has ended."""
    view = await api.sessions.get(session)
    if view.ended_at is not None:
        raise Conflict(
            _("Session {session} has ended ({status}).").format(
                session=session, status=state_text(view.status)
            )
        )
    return view


async def _list(place: Target, agent: str | None, limit: int) -> list[SessionView]:
    async with connect(place) as api:
        return await api.sessions.list(agent, limit)


async def _follow_list(place: Target, agent: str | None, limit: int, as_json: bool) -> None:
    async with connect(place) as api:
        sessions = await api.sessions.list(agent, limit)
        if as_json:
            for view in reversed(sessions):
                print_json_line(view)
        else:
            print_rows(session_rows(sessions), NO_SESSION)
        async with contextlib.aclosing(_changes(api, sessions, agent, limit)) as news:
            async for view in news:
                if as_json:
                    print_json_line(view)
                else:
                    stdout_console().print(session_line(view), highlight=False)


async def _changes(
    api: ControlClient, sessions: list[SessionView], agent: str | None, limit: int
) -> AsyncGenerator[SessionView]:
    """Yield each session that starts, changes state or ends; tolerate a restart of choird."""
    states = {view.session_id: (view.status, view.epoch) for view in sessions}
    answered_at = time.monotonic()
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            sessions = await api.sessions.list(agent, limit)
        except (Unavailable, OutcomeUnknown, DeadlineExceeded):
            # choird may be restarting
            if time.monotonic() - answered_at > RECONNECT_S:
                raise
            continue
        answered_at = time.monotonic()
        for view in reversed(sessions):
            if states.get(view.session_id) != (view.status, view.epoch):
                states[view.session_id] = (view.status, view.epoch)
                yield view


async def _events(place: Target, session: str, after: int, follow: bool, as_json: bool) -> None:
    console = stdout_console()
    async with connect(place) as api:
        news = (
            api.sessions.follow(session, after) if follow else _stored_events(api, session, after)
        )
        # aclosing: without it, a reader that stops early would leave the stream open
        async with contextlib.aclosing(news):
            async for event in news:
                if as_json:
                    print_json_line(event)
                else:
                    console.print(event_line(event), highlight=False)


async def _stored_events(api: ControlClient, session: str, after: int) -> AsyncGenerator[Event]:
    """Yield the stored events after revision `after`, reading them page by page."""
    while True:
        page = await api.sessions.events(session, after)
        for event in page.items:
            yield event
        if page.next is None:
            return
        after = page.next


async def _verify(place: Target, session: str) -> LogVerification:
    async with connect(place) as api:
        return await api.sessions.verify(session)
