"""ASGI middleware of every service: a limit on the received body, and request metrics with a span."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.errors import NotFound, RequestTimeout, TooLarge
from choir_common.http.responses import problem_response
from choir_common.i18n import _
from choir_common.metrics import Metrics
from choir_common.tracing import server_span

# Enough for a few megabytes over a slow connection.
BODY_TIMEOUT_S = 20.0

TRACE_HEADERS = (b"traceparent", b"tracestate")


@dataclass(frozen=True, slots=True)
class LargeBodyRoute:
    """Requests with a file as body: a larger size limit and a longer timeout than others."""

    method: str
    path: str
    """A regular expression that matches the whole path."""
    max_bytes: int
    within_s: float


class RequestMetrics:
    """ASGI middleware that counts and traces requests by route.

    It measures the time to the response head, because a stream has no end.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - started_at
                status = message["status"]
                route = _template(scope)
                self._metrics.count_request(scope["method"], route, status, seconds)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.response.status_code", status)
            await send(message)

        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in TRACE_HEADERS
        }
        with server_span(scope["method"], "http", headers) as span:
            await self._app(scope, receive, send_and_count)


class BodyLimit:
    """ASGI middleware that rejects a body that is too large or arrives too slowly.

    It counts the received bytes, whatever Content-Length claims.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        max_bytes: int,
        within_s: float = BODY_TIMEOUT_S,
        large_bodies: Sequence[LargeBodyRoute] = (),
    ) -> None:
        self._app = app
        self._max = max_bytes
        self._within_s = within_s
        self._large_bodies = tuple((route, re.compile(route.path)) for route in large_bodies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"]:  # no id contains one, and Postgres rejects it
            await problem_response(NotFound(_("A path must not contain NUL.")))(
                scope, receive, send
            )
            return
        max_bytes, within_s = self._limits(scope)
        error = TooLarge(
            _("The body is larger than {max_bytes} bytes.").format(max_bytes=max_bytes)
        )
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > max_bytes):
                await problem_response(error)(scope, receive, send)
                return
        received, complete = 0, False
        deadline = asyncio.get_running_loop().time() + within_s

        async def receive_within_limits() -> Message:
            nonlocal received, complete
            if complete:  # the next message is the disconnect, which has no deadline
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise RequestTimeout(
                    _("The body did not arrive within {within_s:g} s.").format(within_s=within_s)
                ) from None
            complete = not message.get("more_body", False)
            received += len(message.get("body", b""))
            if received > max_bytes:
                raise error
            return message

        await self._app(scope, receive_within_limits, send)

    def _limits(self, scope: Scope) -> tuple[int, float]:
        for route, path in self._large_bodies:
            if scope["method"] == route.method and path.fullmatch(scope["path"]):
                return route.max_bytes, route.within_s
        return self._max, self._within_s


def _template(scope: Scope) -> str:
    """Return the matched route, never a path that a client chose: each would be a new time series."""
    route = getattr(scope.get("route"), "path", None)
    if route is not None:
        return str(route)
    if "endpoint" not in scope:
        return "unknown"
    path = str(scope["path"])
    for name, value in scope.get("path_params", {}).items():
        path = path.replace(str(value), f"{{{name}}}")
    return path
