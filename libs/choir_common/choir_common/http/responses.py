"""Responses of a Choir service: errors as RFC 9457 problem documents, and server-sent events (SSE).

Used by `service_app`, for control's signals and for the gateway's console. The models and the parsers are in
`response_parser`, without a web framework.
"""

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse

from choir_common.errors import ChoirError, RequestTimeout
from choir_common.http.response_parser import (
    CONTENT_TYPE,
    LANGUAGE_HEADER,
    Problem,
    ServerSentEvent,
)
from choir_common.i18n import ENGLISH, Message, choose_language, translate

KEEPALIVE = b": keepalive\n\n"
KEEPALIVE_S = 15.0
"""Seconds between two keepalives of an idle stream."""
EVENT_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""Headers that forbid caching and buffering of an event stream."""


def problem_response(error: ChoirError, language: str = ENGLISH) -> JSONResponse:
    """Return the response that describes `error`.

    Its `detail` is in a language if it is a message, and Content-Language says so; else it is English.
    """
    problem = Problem(
        type=f"urn:choir:error:{error.code}",
        title=error.code.replace("_", " "),
        status=error.status,
        detail=translate(error.message, language),
        code=error.code,
    )
    headers = {}
    if isinstance(error.message, Message) and language != ENGLISH:
        headers["Content-Language"] = language
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if error.status == RequestTimeout.status:
        # The rest of the body would belong to a request that is already answered.
        headers["Connection"] = "close"
    return JSONResponse(
        problem.model_dump(), error.status, headers=headers, media_type=CONTENT_TYPE
    )


async def render_choir_error(request: Request, error: Exception) -> JSONResponse:
    """Render a ChoirError that a route raised (FastAPI exception handler)."""
    language = choose_language(request.headers.get(LANGUAGE_HEADER, ""))
    return problem_response(error if isinstance(error, ChoirError) else ChoirError(), language)


def render_event(event: ServerSentEvent) -> bytes:
    """Return the bytes of one event; JSON text has no line breaks, so one data line is enough.

    An event without an id does not change where a reader resumes: an empty id would mean "from now".
    """
    id_line = f"id: {event.id}\n" if event.id else ""
    return f"{id_line}event: {event.event}\ndata: {event.data}\n\n".encode()


def event_stream_response(body: AsyncIterator[bytes]) -> StreamingResponse:
    """Return the response that sends `body` as an event stream, without caching or buffering."""
    return StreamingResponse(body, media_type="text/event-stream", headers=EVENT_STREAM_HEADERS)
