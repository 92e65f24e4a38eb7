"""Factory of the FastAPI app on which every service mounts its routers.

Adds problem documents for every error, a limit on the received body, `/livez` (the process runs), `/readyz`
(it can work; otherwise 503 with the reasons), and request metrics. The clients of Postgres, NATS and HTTP
translate the errors they know; lost connections that they miss, while the other side or this process is
shutting down, are recognized here.
"""

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import httpx2
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.errors import (
    ChoirError,
    InvalidRequest,
    NotFound,
    OutcomeUnknown,
    RequestTimeout,
    TooLarge,
)
from choir_common.http.openapi import OpenApiApp
from choir_common.http.responses import problem_response, render_choir_error
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_common.tracing import server_span
from choir_common.wire.operator import ComponentStatus
from choir_common.wire.validation_messages import error_message, error_path

log = structlog.get_logger("choir.http")

# FastAPI asks for each annotation whether it is a model of Pydantic 1, and would import that: 40 ms and
# 1.5 MB in each service. None forbids the import.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]

# Enough for a few megabytes over a slow connection.
BODY_TIMEOUT_S = 20.0

TRACE_HEADERS = (b"traceparent", b"tracestate")
# The framework's instrumentation would trace every request twice, with its address and error messages.
NO_FRAMEWORK_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
CLOSED_TRANSPORT = ("the handler is closed", "the client has been closed")
"""Texts of the plain RuntimeErrors that uvloop and the HTTP client raise for a closed transport."""


class ReadinessCheck(Protocol):
    """The readiness check of a service."""

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the state of each part that the service needs."""


@dataclass(frozen=True, slots=True)
class LargeBodyRoute:
    """Requests with a file as body: a larger size limit and a longer timeout than others."""

    method: str
    path: str
    """A regular expression that matches the whole path."""
    max_bytes: int
    within_s: float


def make_service_app(
    title: str,
    version: str,
    readiness: ReadinessCheck,
    *,
    max_body_bytes: int = 1_000_000,
    large_bodies: Sequence[LargeBodyRoute] = (),
    metrics: Metrics | None = None,
    own_metrics: bool = True,
) -> FastAPI:
    """Return an app with error handling, body limit and health routes.

    Requests are counted in `metrics`; `own_metrics` serves them at `/metrics` to every client of this app.
    """
    counts = metrics or Metrics(title)
    app = OpenApiApp(
        title=title,
        version=version,
        docs_url=None,
        redoc_url=None,
        telemetry=NO_FRAMEWORK_TELEMETRY,
    )
    app.add_exception_handler(ChoirError, render_choir_error)
    app.add_exception_handler(RequestValidationError, _render_invalid)
    app.add_exception_handler(HTTPException, _render_http)
    app.add_exception_handler(Exception, _render_unexpected)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, large_bodies=large_bodies)
    app.add_middleware(RequestMetrics, metrics=counts)

    @app.get("/livez", tags=["health"])
    async def livez() -> dict[str, str]:
        """Report that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Report each part this service needs, and whether all are available."""
        parts = list(await readiness.check())
        ready = all(part.ok for part in parts)
        body = {"ready": ready, "parts": [part.model_dump() for part in parts]}
        return JSONResponse(body, 200 if ready else 503)

    if own_metrics:

        @app.get("/metrics", include_in_schema=False)
        async def render_metrics() -> Response:
            """Return this process's metrics for Prometheus."""
            return Response(counts.render(), headers={"Content-Type": CONTENT_TYPE})

    return app


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
            await problem_response(NotFound("A path must not contain NUL."))(scope, receive, send)
            return
        max_bytes, within_s = self._limits(scope)
        error = TooLarge(f"The body is larger than {max_bytes} bytes.")
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
                raise RequestTimeout(f"The body did not arrive within {within_s:g} s.") from None
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


async def _render_invalid(_: Request, error: Exception) -> JSONResponse:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{error_path(f, 'request')}: {error_message(f)}" for f in faults)
    return problem_response(InvalidRequest(text or None))


async def _render_http(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == NotFound.status:
        return problem_response(NotFound(f"There is no route {request.method} {request.url.path}."))
    return problem_response(_FrameworkError(status, str(getattr(error, "detail", ""))))


async def _render_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, method=request.method, exc_info=error)
    return problem_response(_connection_lost() if is_lost_connection(error) else ChoirError())


def _connection_lost() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The connection to a part of Choir was lost; it may be restarting. The request may have "
        "been carried out; it is safe to repeat it with the same key.",
        retry_after_s=2.0,
    )


def is_lost_connection(error: BaseException) -> bool:
    """Return whether an error means that the peer went away, so that a retry may succeed."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_lost_connection(member) for member in error.exceptions)
    if isinstance(error, RuntimeError):
        return any(text in str(error) for text in CLOSED_TRANSPORT)
    return isinstance(error, ConnectionError | TimeoutError | EOFError | httpx2.TransportError)


class _FrameworkError(InvalidRequest):
    """The framework's own rejection, such as 405."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or None)
        self.status = status
