"""Hand words to whoever follows a DM at the console, and fill the gap for those who were away.

Called by doors.py (accept, follow) and roster.py (deliver). Nothing is kept here: a follower with
`Last-Event-ID` is first given what control's outbox has after that id, then what comes.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import structlog

from choir_common.clients.control import ControlInbox
from choir_common.errors import ChoirError
from choir_common.http.sse import KEEPALIVE, KEEPALIVE_S, ServerSentEvent, render
from choir_common.wire.messages import (
    Accepted,
    History,
    HistoryRequest,
    InboundMessage,
    OutboundMessage,
    Receipt,
)

log = structlog.get_logger("choir.gateway.console")

# A follower this far behind is cut; it resumes from the outbox.
QUEUE = 256
PAGE = 200


class _Follower:
    """One open stream."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[OutboundMessage | None] = asyncio.Queue(QUEUE)
        self.cut = False

    def give(self, message: OutboundMessage | None) -> None:
        """Queue a message, or cut the stream when it is too slow; None ends it."""
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.cut = True


class ConsoleHub:
    """The open streams, by DM."""

    def __init__(self, control: ControlInbox) -> None:
        self._control = control
        self._followers: dict[str, set[_Follower]] = {}
        self._closed = False

    async def accept(self, gateway: str, dm: str, key: str, text: str) -> Accepted:
        """Store what a person said; returns once it is durable."""
        return await self._control.accept(
            InboundMessage(
                gateway=gateway,
                dm=dm,
                # keys are the client's own: one DM's must not collide with another's
                update_id=f"{dm}:{key}",
                text=text,
                sent_at=datetime.now(UTC),
            )
        )

    async def history(self, dm: str, after: int, limit: int) -> History:
        """Return what was said in a DM after an id."""
        return await self._control.history(HistoryRequest(dm=dm, after=after, limit=limit))

    def deliver(self, message: OutboundMessage) -> Receipt:
        """Give words to all who follow the DM now; others find them in the outbox."""
        for follower in self._followers.get(message.dm, ()):
            follower.give(message)
        return Receipt(outbox_id=message.outbox_id, status="delivered")

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self._closed = True
        for followers in self._followers.values():
            for follower in followers:
                follower.give(None)

    async def follow(self, dm: str, after: int | None) -> AsyncIterator[bytes]:
        """Yield the DM's event stream; `after` is where a client that was away goes on."""
        follower = _Follower()
        # registered before the outbox is read: what comes meanwhile waits in the queue
        self._followers.setdefault(dm, set()).add(follower)
        try:
            yield KEEPALIVE
            seen = after or 0
            if after is not None:
                async for message in self._missed(dm, after):
                    seen = message.outbox_id
                    yield _event(message)
            async for piece in self._live(follower, seen):
                yield piece
        except ChoirError as error:
            # the stream ends here and the client resumes after what it has
            log.warning("stream ended", dm=dm, reason=error.message)
        finally:
            self._forget(dm, follower)

    async def _missed(self, dm: str, after: int) -> AsyncIterator[OutboundMessage]:
        while True:
            page = await self.history(dm, after, PAGE)
            for message in page.messages:
                yield message
                after = message.outbox_id
            if len(page.messages) < PAGE:
                return

    async def _live(self, follower: _Follower, seen: int) -> AsyncIterator[bytes]:
        while not (self._closed or follower.cut):
            try:
                async with asyncio.timeout(KEEPALIVE_S):
                    message = await follower.queue.get()
            except TimeoutError:
                yield KEEPALIVE
                continue
            if message is None:
                return
            # a delivery repeated after a lost receipt carries an id that was seen
            if message.outbox_id > seen:
                seen = message.outbox_id
                yield _event(message)

    def _forget(self, dm: str, follower: _Follower) -> None:
        followers = self._followers.get(dm, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(dm, None)


def _event(message: OutboundMessage) -> bytes:
    return render(ServerSentEvent(str(message.outbox_id), "message", message.model_dump_json()))
