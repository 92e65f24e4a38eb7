"""Faults that a test can script for calls of Discord's REST API, and its error responses.

Tests pass these to `FakeDiscord.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from choir_testing.faults import Delay as Delay
from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore
from choir_testing.faults import NoFault as NoFault


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429 with `retry_after` in seconds; `is_global`: for all calls of the bot."""

    retry_after: float
    is_global: bool = False


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Any other error response, with Discord's code."""

    status: int
    code: int = 0
    message: str = "error"


Fault = TooManyRequests | ErrorResponse | DisconnectBefore | DisconnectAfter | Delay | NoFault


class ApiError(Exception):
    """An error response of the REST API."""

    def __init__(
        self, status: int, code: int, message: str, *, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.retry_after = retry_after
        self.is_global = False

    def as_json(self) -> dict[str, JsonValue]:
        """Return the body of the response."""
        body: dict[str, JsonValue] = {"message": self.message, "code": self.code}
        if self.retry_after is not None:
            body |= {"retry_after": self.retry_after, "global": self.is_global}
        return body


def invalid_form(place: str, code: str, reason: str) -> ApiError:
    """Return a 400 for an invalid field."""
    return ApiError(400, 50035, f"Invalid Form Body: {place}: {code}: {reason}")
