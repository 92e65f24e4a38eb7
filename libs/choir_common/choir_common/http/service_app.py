"""Factory of the FastAPI app on which every service mounts its routers.

Adds problem documents for every error, a limit on the received body, `/livez` (the process runs), `/readyz`
(it can work; otherwise 503 with the reasons), and request metrics.
"""

import sys
from collections.abc import Sequence

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException

from choir_common.errors import ChoirError, InvalidRequest
from choir_common.http.error_handlers import render_http_error, render_unexpected_error
from choir_common.http.health_app import ReadinessCheck, metrics_response, readiness_response
from choir_common.http.middleware import BodyLimit, LargeBodyRoute, RequestMetrics
from choir_common.http.openapi import OpenApiApp
from choir_common.http.responses import problem_response, render_choir_error
from choir_common.metrics import Metrics
from choir_common.wire.validation_messages import error_message, error_path

# FastAPI asks for each annotation whether it is a model of Pydantic 1, and would import that: 40 ms and
# 1.5 MB in each service. None forbids the import.
sys.modules.setdefault("pydantic.v1", None)  # type: ignore[arg-type]

# The framework's instrumentation would trace every request twice, with its address and error messages.
NO_FRAMEWORK_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}


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
    app.add_exception_handler(HTTPException, render_http_error)
    app.add_exception_handler(Exception, render_unexpected_error)
    app.add_middleware(BodyLimit, max_bytes=max_body_bytes, large_bodies=large_bodies)
    app.add_middleware(RequestMetrics, metrics=counts)

    @app.get("/livez", tags=["health"])
    async def livez() -> dict[str, str]:
        """Report that the process runs."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    async def readyz() -> JSONResponse:
        """Report each part this service needs, and whether all are available."""
        return await readiness_response(readiness)

    if own_metrics:

        @app.get("/metrics", include_in_schema=False)
        async def render_metrics() -> Response:
            """Return this process's metrics for Prometheus."""
            return metrics_response(counts)

    return app


async def _render_invalid(_: Request, error: Exception) -> JSONResponse:
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    text = "; ".join(f"{error_path(f, 'request')}: {error_message(f)}" for f in faults)
    return problem_response(InvalidRequest(text or None))
