"""The route that streams a session's signals as server-sent events. Called by agents after INIT_HELLO."""

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from choir_common.errors import BadInput
from choir_common.http.sse import stream
from choir_control.leases.guard import LeaseGuard
from choir_control.rpc.caller import caller_of, headers_of
from choir_control.rpc.limits import STREAMS, Limits
from choir_control.signals.follow import Followers

MAX_ID = 2**62


def event_routes(guard: LeaseGuard, followers: Followers, limits: Limits) -> APIRouter:
    """Return the router of the signal stream."""
    router = APIRouter(tags=["events"])

    @router.get("/events", response_class=StreamingResponse)
    async def events(request: Request) -> StreamingResponse:
        """Stream pending signals after `Last-Event-ID`, then new ones, until the epoch is over."""
        lease = await caller_of(headers_of(request.scope), guard)
        with limits.admitted(lease.session_id, STREAMS):
            return stream(followers.follow(lease, _last_event_id(request)))

    return router


def _last_event_id(request: Request) -> int:
    text = request.headers.get("last-event-id", "") or "0"
    if not text.isascii() or not text.isdigit() or len(text) > 19 or int(text) > MAX_ID:
        raise BadInput("Last-Event-ID must be the id of an event of this stream.")
    return int(text)
