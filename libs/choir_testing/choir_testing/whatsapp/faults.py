"""Faults that a test can script for calls of the Cloud API, and its error responses.

Tests pass these to `FakeWhatsApp.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore
from choir_testing.faults import NoFault as NoFault


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response with Meta's code."""

    status: int
    code: int
    details: str = "error of the test"


@dataclass(frozen=True, slots=True)
class LateFailure:
    """Accept the call, and report the error as a status; `after_sent`: after the status `sent`."""

    code: int
    details: str = "error of the test"
    after_sent: bool = False


Fault = ErrorResponse | LateFailure | DisconnectBefore | DisconnectAfter | NoFault

TITLES = {
    33: "Parameter value is not valid",
    100: "Invalid parameter",
    190: "Access token has expired",
    130429: "Rate limit hit",
    131009: "Parameter value is not valid",
    131016: "Service unavailable",
    131026: "Message undeliverable",
    131047: "Re-engagement message",
    131053: "Media upload error",
    131056: "(Business Account, Consumer Account) pair rate limit hit",
}


class ApiError(Exception):
    """An error response of the Cloud API."""

    def __init__(self, status: int, code: int, details: str) -> None:
        super().__init__(details)
        self.status = status
        self.code = code
        self.details = details

    def as_json(self) -> JsonValue:
        """Return the body of the response."""
        title = TITLES.get(self.code, "Error")
        return {
            "error": {
                "message": f"(#{self.code}) {title}",
                "type": "OAuthException",
                "code": self.code,
                "error_data": {"messaging_product": "whatsapp", "details": self.details},
                "fbtrace_id": "Az8or2yhqkZfEZ-_4Qn_Bam",
            }
        }


def invalid_parameter(place: str, reason: str) -> ApiError:
    """Return a 400 for an invalid field."""
    return ApiError(400, 100, f"{place}: {reason}")


def status_error(code: int, details: str) -> JsonValue:
    """Return an error as statuses contain it."""
    title = TITLES.get(code, "Error")
    return {
        "code": code,
        "title": title,
        "message": title,
        "error_data": {"details": details},
        "href": "https://developers.facebook.com/documentation/business-messaging/whatsapp/support/error-codes/",
    }
