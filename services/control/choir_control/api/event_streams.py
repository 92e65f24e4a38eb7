"""Streams of server-sent events: a session's signals, and its log as it grows.

The log is followed by `choirctl session events --follow`. Its SSE id is the revision, so that a client
resumes after the last one it received. The table is polled: appending is the hot path and does not
notify readers.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import InvalidRequest, RateLimited, Unavailable
from choir_common.http.response_parser import ServerSentEvent
from choir_common.http.responses import KEEPALIVE, KEEPALIVE_S, event_stream_response, render_event
from choir_common.http.routers import ServiceRouter
from choir_common.i18n import _
from choir_common.wire.events import Event
from choir_control.agents.sessions.record import LIVE_STATUSES
from choir_control.agents.sessions.store import SessionStore
from choir_control.api.rpc.caller import authenticate_session, read_headers
from choir_control.api.rpc.rate_limits import STREAM_LIMIT, SessionRateLimiter
from choir_control.log.eventlog.store import EventStore
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.signals.streams import SignalStreams

log = structlog.get_logger("choir.sessions")

PAGE = 200
POLL_INTERVAL_S = 0.25
MAX_STREAMS = 32
END_EVENT = "end"
"""Type of the last SSE event: the session has ended and its whole log was sent."""
MAX_SIGNAL_ID = 2**62


def make_signal_router(
    guard: LeaseAuthenticator, streams: SignalStreams, limits: SessionRateLimiter
) -> APIRouter:
    """Return the router of the signal stream."""
    router = ServiceRouter(tags=["events"])

    @router.get("/events", response_class=StreamingResponse)
    async def events(request: Request) -> StreamingResponse:
        """Stream pending signals after `Last-Event-ID`, then new ones, until the epoch is over."""
        lease = await authenticate_session(read_headers(request.scope), guard)
        with limits.admitted(lease.session_id, STREAM_LIMIT):
            return event_stream_response(streams.follow(lease, _last_event_id(request)))

    return router


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > MAX_SIGNAL_ID:
        raise InvalidRequest(_("Last-Event-ID must be the id of an event of this stream."))
    return int(text)


class LogStreamer:
    """Streams of session logs, limited in number."""

    def __init__(
        self, sessions: SessionStore, events: EventStore, signal_streams: SignalStreams
    ) -> None:
        """The streams end when `signal_streams` are closing."""
        self._sessions = sessions
        self._events = events
        self._signal_streams = signal_streams
        self._open = 0

    def follow(self, session_id: str, after: int) -> AsyncGenerator[bytes, None]:
        """Yield an SSE stream: all events after a revision, then new ones until the session ends.

        Raises RateLimited when too many streams are open.
        """
        if self._open >= MAX_STREAMS:
            raise RateLimited(
                _("{max_streams} logs are already being followed; close one first.").format(
                    max_streams=MAX_STREAMS
                )
            )
        return self._counted(session_id, after)

    async def _counted(self, session_id: str, after: int) -> AsyncGenerator[bytes, None]:
        self._open += 1
        try:
            async for piece in self._follow(session_id, after):
                yield piece
        finally:
            self._open -= 1

    async def _follow(self, session_id: str, after: int) -> AsyncIterator[bytes]:
        quiet_s = 0.0
        yield KEEPALIVE
        while not self._signal_streams.closing:
            page, status = await self._read_page(session_id, after)
            for event in page:
                after = event.rev
                yield render_event(
                    ServerSentEvent(str(event.rev), event.type, event.model_dump_json())
                )
            if page:
                quiet_s = 0.0
                continue
            if status not in LIVE_STATUSES:
                yield render_event(
                    ServerSentEvent(str(after), END_EVENT, f'{{"status":"{status}"}}')
                )
                return
            await asyncio.sleep(POLL_INTERVAL_S)
            quiet_s += POLL_INTERVAL_S
            if quiet_s >= KEEPALIVE_S:
                quiet_s = 0.0
                yield KEEPALIVE

    async def _read_page(self, session_id: str, after: int) -> tuple[list[Event], str]:
        """Return the session's new events and its status, which is read first.

        If the database is unavailable, return no events and a live status, so that the stream retries.
        """
        try:
            session = await self._sessions.get(session_id)
            page = await self._events.read(session_id, after, PAGE)
        except Unavailable as error:
            log.warning("log stream: database unavailable, retrying", error=error.message)
            return [], LIVE_STATUSES[0]
        return page, session.status if session else "stopped"
