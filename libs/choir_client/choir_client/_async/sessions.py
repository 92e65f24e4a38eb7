"""Sessions and their logs: list, read, follow, verify."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from choir_client import operations
from choir_client._async.connection import SILENCE_S, AsyncConnection
from choir_client.failures import parse_json
from choir_client.operations import PAGE_SIZE, RECONNECT_S
from choir_common.errors import DeadlineExceeded, Unavailable
from choir_common.i18n import _
from choir_common.wire.events import Event
from choir_common.wire.operator import EventPage, LogVerification, SessionView

SessionList = list[SessionView]
_RETRY_S = 1.0
_EVERYTHING = 10**9


class AsyncSessions:
    """The sessions of a Choir."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def list(self, agent_id: str | None = None, limit: int | None = None) -> SessionList:
        """Return the newest sessions first, up to `limit` or all."""
        most = _EVERYTHING if limit is None else limit
        params = {
            "limit": str(min(most, PAGE_SIZE)),
            **({"agent_id": agent_id} if agent_id else {}),
        }
        views: SessionList = []
        while True:
            page = await self._connection.call(operations.LIST_SESSIONS, params=params)
            views += page.items
            if page.next is None or len(views) >= most:
                return views[:most]
            params["cursor"] = page.next

    async def get(self, session_id: str) -> SessionView:
        """Return one session. Raises NotFound if there is no such session."""
        return await self._connection.call(operations.SHOW_SESSION, {"session_id": session_id})

    async def events(self, session_id: str, after: int = 0) -> EventPage:
        """Return up to 200 events that follow revision `after`."""
        params = {"after": str(after), "limit": str(PAGE_SIZE)}
        return await self._connection.call(
            operations.LIST_EVENTS, {"session_id": session_id}, params=params
        )

    async def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[Event]:
        """Yield the events after revision `after` as they are appended, until the session ends.

        A broken stream is resumed after the last event received. Raises NotFound, and Unavailable if nothing
        answers, or not for a minute.
        """
        async with aclosing(self.follow_with_ticks(session_id, after)) as events:
            async for event in events:
                if event is not None:
                    yield event

    async def follow_with_ticks(
        self, session_id: str, after: int, *, silence_s: float = SILENCE_S
    ) -> AsyncGenerator[Event | None]:
        """Yield as `follow` does, and None now and then, so that the caller can look at the time.

        A stream that is silent for `silence_s` is opened again.
        """
        was_open, alive_at = False, time.monotonic()
        while True:
            stream = self._connection.events(
                operations.FOLLOW_EVENTS,
                {"session_id": session_id},
                last_id=after,
                silence_s=silence_s,
            )
            try:
                async with aclosing(stream) as news:
                    async for item in news:
                        was_open, alive_at = True, time.monotonic()
                        if item is None:
                            yield None
                        elif item.event == "end":
                            return
                        else:
                            event = parse_json(
                                item.data,
                                Event,
                                _("The stream of {session_id}").format(session_id=session_id),
                            )
                            after = event.rev
                            yield event
            except (Unavailable, DeadlineExceeded):
                if not was_open:
                    raise  # no stream was ever open, so there is nothing to resume
            # a stream that ends without an `end` event counts as a lost connection, too
            if time.monotonic() - alive_at > RECONNECT_S:
                raise Unavailable(self._lost(session_id, after))
            await asyncio.sleep(_RETRY_S)

    async def verify(self, session_id: str) -> LogVerification:
        """Ask control to check a session's whole log; this may take minutes."""
        return await self._connection.call(operations.VERIFY_SESSION, {"session_id": session_id})

    def _lost(self, session_id: str, after: int) -> str:
        return _(
            "The connection to {display_address} was lost at revision {after} of "
            "{session_id}. Continue later with `choirctl session events {session_id} "
            "--follow --after {after}`."
        ).format(
            display_address=self._connection.target.display_address,
            after=after,
            session_id=session_id,
        )
