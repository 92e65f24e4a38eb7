"""Stream a session's log as it grows (spec 17.1, `session events --follow`). Called by the operator door.

The SSE id is the revision, so a reader that was cut off goes on after the last one it has. The table is
looked at a few times a second: appends are the hot path, and nobody is told there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

import structlog

from choir_common.errors import RateLimited, Unavailable
from choir_common.http.sse import KEEPALIVE, KEEPALIVE_S, ServerSentEvent, render
from choir_common.wire.events import Event
from choir_control.eventlog.store import EventStore
from choir_control.sessions.record import LIVE
from choir_control.sessions.store import SessionStore

log = structlog.get_logger("choir.sessions")

PAGE = 200
LOOK_S = 0.25
MOST_STREAMS = 32
END = "end"
"""The last event of a stream: the session is over, and all of its log was sent."""


class LogStreams:
    """Streams of session logs."""

    def __init__(
        self, sessions: SessionStore, events: EventStore, closing: Callable[[], bool]
    ) -> None:
        self._sessions = sessions
        self._events = events
        self._closing = closing
        self._open = 0

    def follow(self, session_id: str, after: int) -> AsyncIterator[bytes]:
        """Yield the bytes of an event stream: all after a revision, then news until the session is over.

        Raises RateLimited when too many are followed already.
        """
        if self._open >= MOST_STREAMS:
            raise RateLimited(f"{MOST_STREAMS} logs are being followed already; end one first.")
        return self._counted(session_id, after)

    async def _counted(self, session_id: str, after: int) -> AsyncIterator[bytes]:
        self._open += 1
        try:
            async for piece in self._follow(session_id, after):
                yield piece
        finally:
            self._open -= 1

    async def _follow(self, session_id: str, after: int) -> AsyncIterator[bytes]:
        quiet_s = 0.0
        yield KEEPALIVE
        while not self._closing():
            page, status = await self._look(session_id, after)
            for event in page:
                after = event.rev
                yield render(ServerSentEvent(str(event.rev), event.type, event.model_dump_json()))
            if page:
                quiet_s = 0.0
                continue
            if status not in LIVE:
                yield render(ServerSentEvent(str(after), END, f'{{"status":"{status}"}}'))
                return
            await asyncio.sleep(LOOK_S)
            quiet_s += LOOK_S
            if quiet_s >= KEEPALIVE_S:
                quiet_s = 0.0
                yield KEEPALIVE

    async def _look(self, session_id: str, after: int) -> tuple[list[Event], str]:
        """Return what is new and, read before it, how the session stands; no news if the database is away."""
        try:
            session = await self._sessions.get(session_id)
            page = await self._events.read(session_id, after, PAGE)
        except Unavailable as error:
            log.warning("a stream waits for the database", error=error.message)
            return [], LIVE[0]
        return page, session.status if session else "stopped"
