"""ASGI handler of `POST /rpc/<verb>`, from the bytes of a request to the bytes of its response.

Heartbeats are most of choird's load, so they bypass the web framework. Routes that are never called
describe the verbs in OpenAPI.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import get_type_hints

from fastapi import APIRouter, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from choir_common.errors import (
    ChoirError,
    Fenced,
    InvalidRequest,
    NotFound,
    RateLimited,
    RequestTimeout,
    TooLarge,
)
from choir_common.http.body import parse_body
from choir_common.http.middleware import BODY_TIMEOUT_S, RequestMetrics
from choir_common.http.responses import problem_response
from choir_common.http.routers import ServiceRouter
from choir_common.metrics import Metrics
from choir_common.wire.model import WireModel
from choir_control.api.rpc.caller import authenticate_session, read_headers
from choir_control.api.rpc.rate_limits import VERB_LIMITS, SessionRateLimiter
from choir_control.api.rpc.verbs import RpcVerb
from choir_control.log.leases.authentication import LeaseAuthenticator

PREFIX = "/rpc/"
TEMPLATE = "/rpc/{verb}"
# The longest delay of a response to a session that exceeds its limits, in seconds.
MAX_DELAY_S = 0.25


class RpcApp:
    """ASGI middleware that serves the verbs and passes other requests to the wrapped application."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        leases: LeaseAuthenticator,
        table: dict[str, RpcVerb],
        limits: SessionRateLimiter,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._leases = leases
        self._table = table
        self._limits = limits
        self._counted = RequestMetrics(self._call, metrics)
        self._route = Route(TEMPLATE, self._call, methods=["POST"])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a verb, or pass the request on."""
        if (
            scope["type"] != "http"
            or scope["method"] != "POST"
            or not scope["path"].startswith(PREFIX)
        ):
            await self._app(scope, receive, send)
        else:
            scope["route"] = self._route  # names the route in the metrics
            await self._counted(scope, receive, send)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._answer(scope, receive)
        except ChoirError as error:
            if isinstance(error, RateLimited):
                # Delay the response: without it, a session that retries at once would still load
                # choird.
                await asyncio.sleep(min(error.retry_after_s or MAX_DELAY_S, MAX_DELAY_S))
            await problem_response(error)(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(answer)).encode()),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        """Return the response body; raises ChoirError."""
        headers = read_headers(scope)
        # Before the body is read: an unknown caller must not cost memory.
        lease = await authenticate_session(headers, self._leases)
        verb = scope["path"][len(PREFIX) :]
        entry = self._table.get(verb)
        if entry is None:
            raise NotFound(
                f"There is no verb {verb[:40]!r}; valid verbs: {', '.join(self._table)}."
            )
        allowance = VERB_LIMITS[verb]
        with self._limits.admitted(lease.session_id, allowance):
            body = await _read(verb, headers, receive, allowance.max_body)
            self._limits.weigh(lease.session_id, len(body))
            # The session may have ended while its body arrived.
            if not await self._leases.is_current(lease):
                raise Fenced("This session ended during the request.")
            answer = await entry.answer(lease, parse_body(body, entry.takes))
        return answer.model_dump_json().encode()


async def _read(
    verb: str, headers: Mapping[bytes, bytes], receive: Receive, max_bytes: int
) -> bytes:
    """Return the body; raises TooLarge as soon as it is, RequestTimeout after `BODY_TIMEOUT_S`."""
    content_length = headers.get(b"content-length", b"0")
    fits = not content_length.isdigit() or int(content_length) <= max_bytes
    body, more = bytearray(), fits
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise InvalidRequest("The connection ended before the body did.")
                body += message.get("body", b"")
                fits = len(body) <= max_bytes
                more = fits and message.get("more_body", False)
    except TimeoutError:
        raise RequestTimeout(f"The body did not arrive within {BODY_TIMEOUT_S:g} s.") from None
    if not fits:
        raise TooLarge(f"A body for {verb} takes at most {max_bytes} bytes.")
    return bytes(body)


def make_rpc_router(table: dict[str, RpcVerb]) -> APIRouter:
    """Return the router that describes the verbs."""
    router = ServiceRouter(tags=["rpc"])
    for verb, entry in table.items():
        router.add_api_route(
            f"{PREFIX}{verb}",
            _described(entry),
            methods=["POST"],
            name=verb,
            summary=verb,
            description=(entry.takes.__doc__ or "").strip(),
            response_model=get_type_hints(entry.answer)["return"],
        )
    return router


def _described(entry: RpcVerb) -> Callable[..., Awaitable[Response]]:
    """Return a function with the signature of the verb; it is never called."""

    async def never_called(body: WireModel) -> Response:
        raise AssertionError("RpcApp serves this route")

    never_called.__annotations__["body"] = entry.takes
    return never_called
