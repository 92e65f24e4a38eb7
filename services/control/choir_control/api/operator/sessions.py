"""`/v1/sessions`: lists, logs, verification."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.http.responses import event_stream_response
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.memory_modes import INCOGNITO
from choir_common.wire.operator import EventPage, LogVerification, Page, SessionView
from choir_control.agents.sessions.record import SessionRow
from choir_control.agents.sessions.store import SessionStore
from choir_control.api.event_streams import LogStreamer
from choir_control.api.operator.authentication import until_signed_out
from choir_control.log.audit.verifier import LogVerifier
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.conversations import ConversationStore

MAX_ID = 100
MAX_REV = 2**53


def session_routes(
    *,
    sessions: SessionStore,
    conversations: ConversationStore,
    events: EventStore,
    streams: LogStreamer,
    verifier: LogVerifier,
) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/sessions", tags=["sessions"])
    router.include_router(_log_routes(sessions, events, streams))

    @router.get("")
    async def list_sessions(
        agent_id: Annotated[str | None, Query(max_length=MAX_ID)] = None,
        cursor: Annotated[str | None, Query(max_length=MAX_ID)] = None,
        limit: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Page[SessionView]:
        """List sessions, newest first."""
        # A text that cannot be an id, e.g. with a NUL, would be a database error.
        if not all(_plausible(text) for text in (agent_id, cursor) if text is not None):
            return Page(items=[])
        # one row more than requested shows whether there is a next page
        rows = await sessions.list_page(agent_id, cursor, limit + 1)
        more = rows[limit - 1].session_id if len(rows) > limit else None
        further = await conversations.list_served([row.session_id for row in rows])
        views = [row.view(further.get(row.session_id, ())) for row in rows[:limit]]
        return Page(items=views, next=more)

    @router.get("/{session_id}")
    async def show_session(session_id: str) -> SessionView:
        """Show one session."""
        row = await _find(sessions, session_id)
        further = await conversations.list_served([row.session_id])
        return row.view(further.get(row.session_id, ()))

    @router.get("/{session_id}/verify")
    async def verify_session(session_id: str) -> LogVerification:
        """Check the hash chain, the signatures and the anchors of a session's log."""
        row = await _find(sessions, session_id)
        return await verifier.verify(row.session_id, row.head)

    return router


def _log_routes(sessions: SessionStore, events: EventStore, streams: LogStreamer) -> APIRouter:
    router = ServiceRouter()

    @router.get("/{session_id}/events")
    async def list_events(
        session_id: str,
        after: Annotated[int, Query(ge=0, le=MAX_REV)] = 0,
        limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    ) -> EventPage:
        """List a session's events in order of revision."""
        row = await _find(sessions, session_id)
        try:
            page = await events.read(row.session_id, after, limit)
        except ValueError:
            raise Conflict(
                _(
                    "The log of {session_id} contains a damaged event; `choirctl session verify "
                    "{session_id}` shows which."
                ).format(session_id=row.session_id)
            ) from None
        if not page and (erased_log := await events.find_erased(row.session_id)) is not None:
            cause = f"by agents.{row.agent_id}.retention.log or by a person"
            if row.memory_mode == INCOGNITO:
                cause = "because it was incognito"
            raise NotFound(
                _(
                    "The log of {session_id} was erased on {erased_at:%Y-%m-%d}, {cause}; its hashes are "
                    "kept."
                ).format(session_id=row.session_id, erased_at=erased_log.erased_at, cause=cause)
            )
        more = page[-1].rev if len(page) == limit else None
        return EventPage(items=tuple(page), next=more)

    @router.get("/{session_id}/events/stream", response_class=StreamingResponse)
    async def follow_events(
        session_id: str,
        request: Request,
        after: Annotated[int, Query(ge=0, le=MAX_REV)] = 0,
    ) -> StreamingResponse:
        """Stream a session's events after `Last-Event-ID`, or else `after`, until the session
        ends."""
        row = await _find(sessions, session_id)
        events = streams.follow(row.session_id, _last_seen(request, after))
        return event_stream_response(until_signed_out(request, events))

    return router


async def _find(sessions: SessionStore, session_id: str) -> SessionRow:
    row = await sessions.get(session_id) if _plausible(session_id) else None
    if row is None:
        raise NotFound(
            _("There is no session {session_id!r}.").format(session_id=session_id[:MAX_ID])
        )
    return row


def _plausible(text: str) -> bool:
    return len(text) <= MAX_ID and text.isascii() and text.isprintable()


def _last_seen(request: Request, after: int) -> int:
    text = request.headers.get("last-event-id", "")
    if not text:
        return after
    if not text.isascii() or not text.isdigit() or int(text[:20]) > MAX_REV:
        raise InvalidRequest(
            _("Last-Event-ID must be the id of an event of this stream: a revision.")
        )
    return int(text)
