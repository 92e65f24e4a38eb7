"""Rendering of errors as RFC 9457 problem documents.

Used by `service_app`. The document's model and its parser are in `problem_document`, without a web
framework.
"""

from starlette.requests import Request
from starlette.responses import JSONResponse

from choir_common.errors import ChoirError, RequestTimeout
from choir_common.http.problem_document import CONTENT_TYPE, Problem, read_problem

__all__ = ["CONTENT_TYPE", "Problem", "problem_response", "read_problem", "render_choir_error"]


def problem_response(error: ChoirError) -> JSONResponse:
    """Return the response that describes `error`."""
    problem = Problem(
        type=f"urn:choir:error:{error.code}",
        title=error.code.replace("_", " "),
        status=error.status,
        detail=error.message,
        code=error.code,
    )
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if error.status == RequestTimeout.status:
        # The rest of the body would belong to a request that is already answered.
        headers["Connection"] = "close"
    return JSONResponse(
        problem.model_dump(), error.status, headers=headers, media_type=CONTENT_TYPE
    )


async def render_choir_error(_: Request, error: Exception) -> JSONResponse:
    """Render a ChoirError that a route raised (FastAPI exception handler)."""
    return problem_response(error if isinstance(error, ChoirError) else ChoirError())
