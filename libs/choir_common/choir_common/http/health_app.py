"""Health and metrics routes, and the app of a service that serves nothing else over HTTP.

Written for Starlette: FastAPI takes 6 MB, which a service without an API does not need.
"""

from collections.abc import Sequence
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from choir_common.errors import ChoirError
from choir_common.http.error_handlers import render_http_error, render_unexpected_error
from choir_common.http.middleware import BodyLimit, RequestMetrics
from choir_common.http.responses import render_choir_error
from choir_common.metrics import CONTENT_TYPE, Metrics
from choir_common.wire.operator import ComponentStatus


class ReadinessCheck(Protocol):
    """The readiness check of a service."""

    async def check(self) -> Sequence[ComponentStatus]:
        """Return the state of each part that the service needs."""


async def readiness_response(readiness: ReadinessCheck) -> JSONResponse:
    """Return each part that the service needs, with status 503 unless all are available."""
    parts = list(await readiness.check())
    ready = all(part.ok for part in parts)
    body = {"ready": ready, "parts": [part.model_dump() for part in parts]}
    return JSONResponse(body, 200 if ready else 503)


def metrics_response(metrics: Metrics) -> Response:
    """Return the metrics for Prometheus."""
    return Response(metrics.render(), headers={"Content-Type": CONTENT_TYPE})


def make_health_app(readiness: ReadinessCheck, metrics: Metrics) -> Starlette:
    """Return an app with `/livez`, `/readyz` and `/metrics`, which rejects every body."""

    async def livez(_: Request) -> JSONResponse:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> JSONResponse:
        return await readiness_response(readiness)

    async def render_metrics(_: Request) -> Response:
        return metrics_response(metrics)

    return Starlette(
        routes=[
            Route("/livez", livez),
            Route("/readyz", readyz),
            Route("/metrics", render_metrics),
        ],
        middleware=[
            Middleware(RequestMetrics, metrics=metrics),
            Middleware(BodyLimit, max_bytes=0),
        ],
        exception_handlers={
            ChoirError: render_choir_error,
            HTTPException: render_http_error,
            Exception: render_unexpected_error,
        },
    )
