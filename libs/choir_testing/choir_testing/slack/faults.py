"""Faults that a test can script for calls of Slack's Web API, and its error responses.

Tests pass these to `FakeSlack.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass

from choir_common.wire.model import JsonObject
from choir_testing.faults import Delay as Delay
from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore
from choir_testing.faults import NoFault as NoFault


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429 with `Retry-After` in whole seconds."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """200 with `ok: false` and an error code."""

    code: str


@dataclass(frozen=True, slots=True)
class HttpError:
    """A response of a proxy, without JSON."""

    status: int


Fault = (
    TooManyRequests | ErrorCode | HttpError | DisconnectBefore | DisconnectAfter | Delay | NoFault
)


class ApiError(Exception):
    """A response with `ok: false`."""

    def __init__(self, code: str, *, retry_after: int | None = None, **details: str) -> None:
        super().__init__(code)
        self.code = code
        self.retry_after = retry_after
        self.details = details

    def as_json(self) -> JsonObject:
        """Return the body of the response."""
        return {"ok": False, "error": self.code, **self.details}


def invalid_arguments(reason: str) -> ApiError:
    """Return the error for arguments that a method does not accept."""
    return ApiError("invalid_arguments", reason=reason)
