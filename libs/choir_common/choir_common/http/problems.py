"""Render errors as RFC 9457 problem details, and read them back.

Used by `service_app` (rendering) and by every HTTP client of a Choir service (reading).
"""

from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse

from choir_common.errors import ChoirError, ErrorEnvelope, from_envelope

CONTENT_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error over HTTP; `code` is stable, `detail` is for people."""

    model_config = ConfigDict(frozen=True)

    type: str
    title: str
    status: int
    detail: str
    code: str


def problem_response(error: ChoirError) -> JSONResponse:
    """Return the response that says `error`."""
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
    return JSONResponse(
        problem.model_dump(), error.status, headers=headers, media_type=CONTENT_TYPE
    )


async def render_choir_error(_: Request, error: Exception) -> JSONResponse:
    """Answer a ChoirError raised anywhere in a door."""
    return problem_response(error if isinstance(error, ChoirError) else ChoirError())


def read_problem(status: int, body: bytes) -> ChoirError:
    """Rebuild the error behind a response with a status of 400 or more."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return ChoirError(f"HTTP {status} without a problem document.")
    return from_envelope(ErrorEnvelope(code=problem.code, message=problem.detail))
