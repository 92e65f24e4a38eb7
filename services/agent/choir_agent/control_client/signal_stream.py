"""Stream of control's signals over SSE, across reconnects.

`Last-Event-ID` makes the stream continue where it was interrupted.
"""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import structlog

from choir_agent.control_client.control_client import ControlClient, error_from_response
from choir_common.backoff import Backoff
from choir_common.errors import ChoirError, Fenced, Unauthorized
from choir_common.http import sse_read
from choir_common.ids import new_id
from choir_common.wire.signals import SIGNAL_BODY, Signal

log = structlog.get_logger("choir.agent.signals")

# Control sends a comment every 15 s; after three missing ones the connection is dead.
READ_TIMEOUT_S = 45.0


async def follow_signals(control: ControlClient) -> AsyncIterator[Signal]:
    """Yield every signal once and in order, until cancelled.

    Raises Fenced or Unauthorized if this session is no longer ours.
    """
    last_seen: int | None = None
    backoff = Backoff()
    while True:
        try:
            async for signal in _follow_once(control, last_seen):
                backoff.reset()
                # A reconnect may repeat signals.
                if last_seen is None or signal.seq > last_seen:
                    last_seen = signal.seq
                    yield signal
        except (Fenced, Unauthorized):
            raise
        except (httpx2.TransportError, ChoirError, ValueError) as error:
            log.info("signal stream interrupted; reconnecting", reason=str(error))
        await asyncio.sleep(backoff.pause_s())


async def _follow_once(control: ControlClient, last_seen: int | None) -> AsyncIterator[Signal]:
    headers = {"Accept": "text/event-stream", "X-Choir-Request-Id": new_id("req")}
    if last_seen is not None:
        headers["Last-Event-ID"] = str(last_seen)
    timeout = httpx2.Timeout(5.0, read=READ_TIMEOUT_S)
    async with control.http.stream("GET", "/events", headers=headers, timeout=timeout) as response:
        if not response.is_success:
            raise error_from_response(response.status_code, await response.aread())
        async for event in sse_read.parse_events(response.aiter_raw()):
            yield Signal(seq=int(event.id), body=SIGNAL_BODY.validate_json(event.data))
