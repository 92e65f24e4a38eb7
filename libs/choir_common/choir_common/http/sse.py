"""Write server-sent events (SSE).

Used by control's signal door and the gateway's console; the reader's side is `sse_read`, whose names
stand here too for those who need both.
"""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from choir_common.http.sse_read import MAX_LINE_BYTES, ServerSentEvent, read

__all__ = [
    "KEEPALIVE",
    "KEEPALIVE_S",
    "MAX_LINE_BYTES",
    "ServerSentEvent",
    "read",
    "render",
    "stream",
]

KEEPALIVE = b": keepalive\n\n"
KEEPALIVE_S = 15.0


def render(event: ServerSentEvent) -> bytes:
    """Return the bytes of one event; JSON text has no line breaks, so one data line suffices.

    An event without an id leaves it open where a reader resumes: an empty one would say "from now".
    """
    place = f"id: {event.id}\n" if event.id else ""
    return f"{place}event: {event.event}\ndata: {event.data}\n\n".encode()


def stream(body: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that sends `body` as an event stream nobody may cache or buffer."""
    return StreamingResponse(
        body,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )
