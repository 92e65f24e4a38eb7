"""RFC 9457 problem document, and how a client turns one back into an error.

Rendered by `problems`, read by every HTTP client of a Choir service.
"""

from pydantic import BaseModel, ConfigDict, ValidationError

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


def read_problem(status: int, body: bytes, retry_after: str | None = None) -> ChoirError:
    """Rebuild the error from a response with status 400 or more; `retry_after` is its header."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
        return ChoirError(f"HTTP {status} without a problem document.")
    wait_s = float(retry_after) if retry_after and retry_after.isdecimal() else None
    envelope = ErrorEnvelope(code=problem.code, message=problem.detail, retry_after_s=wait_s)
    return from_envelope(envelope)
