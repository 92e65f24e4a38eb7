"""Build the FastAPI app every service's doors are mounted on.

Called by each `app.py`. Adds problem details for every error, a body limit that counts what arrives,
`/livez` (the process runs), `/readyz` (it can work; 503 and the reasons otherwise), and counts requests.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from choir_common.errors import BadInput, ChoirError, NotFound, OutcomeUnknown, TooLarge, TooSlow
from choir_common.http.api_document import DescribedApp
from choir_common.http.lost_connection import is_lost_connection
from choir_common.http.problems import problem_response, render_choir_error
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_common.tracing import answering
from choir_common.wire.faults import fault_in_words, fault_place
from choir_common.wire.operator import PartStatus

log = structlog.get_logger("choir.http")

# a few megabytes over a bad line; nobody honest takes longer
BODY_WITHIN_S = 20.0

TRACE_HEADERS = (b"traceparent", b"tracestate")
# the framework's would span every request a second time, with its address and its errors' words
OUR_OWN_SPANS: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True)
class Readiness:
    """How a service finds out whether it can work."""

    check: Callable[[], Awaitable[Sequence[PartStatus]]]


@dataclass(frozen=True, slots=True)
class LargeBody:
    """Requests whose body is a file: they may be larger than all others, and take longer to come."""

    method: str
    path: str
    """A regular expression of the whole path."""
    max_bytes: int
    within_s: float


def make_service_app(
    title: str,
    version: str,
    readiness: Readiness,
    *,
    max_body_bytes: int = 1_000_000,
    large_bodies: Sequence[LargeBody] = (),
    metrics: Metrics | None = None,
    own_metrics: bool = True,
) -> FastAPI:
    """Return an app with error handling, body limit and health routes.

    Requests are counted in `metrics`; `own_metrics` serves them at `/metrics` to whoever reaches this app.
    """
    counts = metrics or Metrics(title)
    app = DescribedApp(
        title=title, version=version, docs_url=None, redoc_url=None, telemetry=OUR_OWN_SPANS
    )
    app.add_exception_handler(ChoirError, render_choir_error)
    app.add_exception_handler(RequestValidationError, _render_invalid)
    app.add_exception_handler(HTTPException, _render_http)
    app.add_exception_handler(Exception, _render_unexpected)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, larger=large_bodies)
    app.add_middleware(Counting, metrics=counts)

    @app.get("/livez", tags=["health"])
    async def livez() -> dict[str, str]:
        """Say that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Say whether every part this service needs is there, and which is not."""
        parts = list(await readiness.check())
        ready = all(part.ok for part in parts)
        body = {"ready": ready, "parts": [part.model_dump() for part in parts]}
        return JSONResponse(body, 200 if ready else 503)

    if own_metrics:

        @app.get("/metrics", include_in_schema=False)
        async def figures() -> Response:
            """Give Prometheus this process's figures."""
            return Response(counts.render(), headers={"Content-Type": CONTENT_TYPE})

    return app


class Counting:
    """Counts and spans requests by route; times them to the head of their answer: a stream has no end."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.perf_counter()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seconds = time.perf_counter() - began
                status = message["status"]
                route = _template(scope)
                self._metrics.note_request(scope["method"], route, status, seconds)
                span.update_name(f"{scope['method']} {route}")
                span.set_attribute("http.response.status_code", status)
            await send(message)

        headers = {
            name.decode("latin-1"): value.decode("latin-1")
            for name, value in scope["headers"]
            if name in TRACE_HEADERS
        }
        with answering(scope["method"], "http", headers) as span:
            await self._app(scope, receive, noted)


class BodyLimit:
    """Cuts a request whose body grows past the limit, whatever it claims, or takes too long to come."""

    def __init__(
        self,
        app: ASGIApp,
        max_bytes: int,
        within_s: float = BODY_WITHIN_S,
        larger: Sequence[LargeBody] = (),
    ) -> None:
        self._app = app
        self._max = max_bytes
        self._within_s = within_s
        self._larger = tuple((each, re.compile(each.path)) for each in larger)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"]:  # no id holds one, and Postgres takes none
            await problem_response(NotFound("No path holds a NUL."))(scope, receive, send)
            return
        most, within_s = self._limits(scope)
        error = TooLarge(f"The body is larger than {most} bytes.")
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value) > most):
                await problem_response(error)(scope, receive, send)
                return
        seen, whole = 0, False
        until = asyncio.get_running_loop().time() + within_s

        async def counted() -> Message:
            nonlocal seen, whole
            if whole:  # what comes now is the end of the connection, and may take its time
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                raise TooSlow(f"The body did not arrive within {within_s:g} s.") from None
            whole = not message.get("more_body", False)
            seen += len(message.get("body", b""))
            if seen > most:
                raise error
            return message

        await self._app(scope, counted, send)

    def _limits(self, scope: Scope) -> tuple[int, float]:
        for each, path in self._larger:
            if scope["method"] == each.method and path.fullmatch(scope["path"]):
                return each.max_bytes, each.within_s
        return self._max, self._within_s


def _template(scope: Scope) -> str:
    """Return the route that was taken, never a path that a stranger chose: each would be a series."""
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
    text = "; ".join(f"{fault_place(f, 'request')}: {fault_in_words(f)}" for f in faults)
    return problem_response(BadInput(text or None))


async def _render_http(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    if status == NotFound.status:
        return problem_response(NotFound(f"There is no {request.method} {request.url.path} here."))
    return problem_response(_WithStatus(status, str(getattr(error, "detail", ""))))


async def _render_unexpected(request: Request, error: Exception) -> JSONResponse:
    log.error("request failed", path=request.url.path, method=request.method, exc_info=error)
    return problem_response(_connection_lost() if is_lost_connection(error) else ChoirError())


def _connection_lost() -> OutcomeUnknown:
    return OutcomeUnknown(
        "A part of Choir went away while it was asked; it may be restarting. This may have happened; "
        "repeating it under the same key is safe.",
        retry_after_s=2.0,
    )


class _WithStatus(BadInput):
    """A framework's own refusal (405 and the like)."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message or None)
        self.status = status
