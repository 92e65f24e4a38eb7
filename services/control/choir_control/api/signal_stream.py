"""The route that streams a session's signals as server-sent events."""

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import InvalidRequest
from choir_common.http.sse import event_stream_response
from choir_control.api.rpc.caller import authenticate_session, read_headers
from choir_control.api.rpc.rate_limits import STREAM_LIMIT, SessionRateLimiter
from choir_control.log.leases.authentication import LeaseAuthenticator
from choir_control.log.signals.streams import SignalStreams

MAX_ID = 2**62


def make_signal_router(
    guard: LeaseAuthenticator, streams: SignalStreams, limits: SessionRateLimiter
) -> APIRouter:
    """Return the router of the signal stream."""
    router = APIRouter(tags=["events"])

    @router.get("/events", response_class=StreamingResponse)
    async def events(request: Request) -> StreamingResponse:
        """Stream pending signals after `Last-Event-ID`, then new ones, until the epoch is over."""
        lease = await authenticate_session(read_headers(request.scope), guard)
        with limits.admitted(lease.session_id, STREAM_LIMIT):
            return event_stream_response(streams.follow(lease, _last_event_id(request)))

    return router


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > MAX_ID:
        raise InvalidRequest("Last-Event-ID must be the id of an event of this stream.")
    return int(text)
