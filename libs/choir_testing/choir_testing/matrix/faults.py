"""Faults that a test can script for calls of the client-server API, and its error responses.

Tests pass these to `FakeMatrix.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.faults import Delay as Delay
from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore
from choir_testing.faults import NoFault as NoFault


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429 with M_LIMIT_EXCEEDED; `has_header`: the time is only in the header Retry-After."""

    retry_after_ms: int
    has_header: bool = False


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Any other error response; without a code it is one of a proxy."""

    status: int
    code: str = ""
    message: str = "error"


Fault = TooManyRequests | ErrorResponse | DisconnectBefore | DisconnectAfter | Delay | NoFault


class ApiError(Exception):
    """An error response of the API."""

    def __init__(
        self, status: int, code: str, message: str, *, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.headers: dict[str, str] = {}

    def as_json(self) -> JsonObject:
        """Return the body of the response."""
        body: JsonObject = {"errcode": self.code, "error": self.message}
        if self.retry_after_ms is not None:
            body["retry_after_ms"] = self.retry_after_ms
        if self.code == "M_UNKNOWN_TOKEN":
            body["soft_logout"] = False
        return body


def bad_json(reason: str) -> ApiError:
    """Return a 400 for a body of another shape."""
    return ApiError(400, "M_BAD_JSON", reason)


def forbidden(reason: str) -> ApiError:
    """Return a 403."""
    return ApiError(403, "M_FORBIDDEN", reason)


def not_found(reason: str) -> ApiError:
    """Return a 404."""
    return ApiError(404, "M_NOT_FOUND", reason)
