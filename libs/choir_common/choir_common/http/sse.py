"""Server-sent events (SSE): rendering and the streaming response.

Used for control's signals and the gateway's console. The reader is `sse_read`; its names are re-exported
here for modules that need both.
"""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse

from choir_common.http.sse_read import MAX_LINE_BYTES, ServerSentEvent

__all__ = [
    "KEEPALIVE",
    "KEEPALIVE_S",
    "MAX_LINE_BYTES",
    "ServerSentEvent",
    "event_stream_response",
    "render_event",
]

KEEPALIVE = b": keepalive\n\n"
KEEPALIVE_S = 15.0


def render_event(event: ServerSentEvent) -> bytes:
    """Return the bytes of one event; JSON text has no line breaks, so one data line is enough.

    An event without an id does not change where a reader resumes: an empty id would mean "from now".
    """
    id_line = f"id: {event.id}\n" if event.id else ""
    return f"{id_line}event: {event.event}\ndata: {event.data}\n\n".encode()


def event_stream_response(body: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that sends `body` as an event stream, without caching or buffering."""
    return StreamingResponse(
        body,
        media_type="text/event-stream",
        headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"},
    )
