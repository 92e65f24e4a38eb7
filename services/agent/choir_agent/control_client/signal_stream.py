"""The stream of control's signals over SSE, followed across reconnects.

One stream has the signals of all conversations. Nothing may block it: a message that its conversation cannot
queue is left in control, together with those that follow it there, and the stream is read again from that
message on when the queue has room. The signals between are repeated then, and have no further effect.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import httpx2
import structlog

from choir_agent.control_client.control_client import ControlClient, error_from_response
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.http.response_parser import parse_events
from choir_common.ids import new_id
from choir_common.wire.signals import SIGNAL_BODY, Signal

log = structlog.get_logger("choir.agent.signals")

# Control sends a comment every 15 s; after three missing ones the connection is dead.
READ_TIMEOUT_S = 45.0


class SignalHandler(Protocol):
    """Handler of signals."""

    def receive(self, signal: Signal) -> None:
        """Handle a signal; must not block, and ignores one that it knows."""


class ConnectionListener(Protocol):
    """Receiver of the news that the connection to control was interrupted."""

    def connection_lost(self) -> None:
        """Handle the interruption; must not block."""


class SignalStream:
    """The signals of this session, in the order of their numbers."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control
        self._last_seen: int | None = None
        self._first_left: dict[str, int] = {}
        """The number of the first message that was left, by the lane of its conversation."""
        self._wanted_lanes: set[str] = set()
        """Lanes whose messages can be fetched again."""
        self._connection: asyncio.Timeout | None = None
        self._listener: ConnectionListener | None = None

    def report_to(self, listener: ConnectionListener) -> None:
        """Tell a listener of each interruption, before the stream is opened again."""
        self._listener = listener

    def has_left(self, lane: str) -> bool:
        """Return whether messages of a conversation were left: later ones must not overtake them."""
        return lane in self._first_left

    def leave(self, lane: str, signal: int) -> None:
        """Leave a message in control until `fetch_again`."""
        if lane not in self._first_left:
            log.warning("queue full; messages wait in control", lane=lane)
            self._first_left[lane] = signal

    def fetch_again(self, lane: str) -> None:
        """Fetch the messages of a conversation that were left, if there are any."""
        if lane not in self._first_left or lane in self._wanted_lanes:
            return
        is_first = not self._wanted_lanes
        self._wanted_lanes.add(lane)
        if is_first and self._connection is not None:
            self._connection.reschedule(asyncio.get_running_loop().time())

    async def follow(self, handler: SignalHandler) -> None:
        """Pass every signal to the handler until cancelled; only repeated ones are out of order.

        `Last-Event-ID` makes the stream continue where it was interrupted. Raises Fenced or Unauthorized if
        this session is no longer ours.
        """
        backoff = Backoff()
        while True:
            try:
                await self._follow_once(handler, backoff)
            except (Fenced, Unauthorized):
                raise
            except (httpx2.TransportError, ChoirError, ValueError, TimeoutError) as error:
                if self._wanted_lanes:
                    continue
                log.info("signal stream interrupted; reconnecting", error=str(error))
            await asyncio.sleep(backoff.pause_s())
            if self._listener is not None:
                self._listener.connection_lost()

    async def _follow_once(self, handler: SignalHandler, backoff: Backoff) -> None:
        self._rewind()
        try:
            async with asyncio.timeout(None) as self._connection:
                async for signal in _read(self._control, self._last_seen):
                    backoff.reset()
                    # A reconnect may repeat signals.
                    if self._last_seen is None or signal.seq > self._last_seen:
                        self._last_seen = signal.seq
                        handler.receive(signal)
        finally:
            self._connection = None

    def _rewind(self) -> None:
        """Continue before the first message that is wanted. Until here its lane counts as left."""
        for lane in self._wanted_lanes:
            first = self._first_left.pop(lane)
            self._last_seen = min(self._last_seen or 0, first - 1)
        self._wanted_lanes.clear()


async def _read(control: ControlClient, last_seen: int | None) -> AsyncIterator[Signal]:
    headers = {"Accept": "text/event-stream", "X-Choir-Request-Id": new_id("req")}
    if last_seen is not None:
        headers["Last-Event-ID"] = str(last_seen)
    timeout = httpx2.Timeout(5.0, read=READ_TIMEOUT_S)
    async with control.http.stream("GET", "/events", headers=headers, timeout=timeout) as response:
        if not response.is_success:
            raise error_from_response(response.status_code, await response.aread())
        async for event in parse_events(response.aiter_raw()):
            yield Signal(seq=int(event.id), body=SIGNAL_BODY.validate_json(event.data))
