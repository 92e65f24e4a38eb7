"""Faults that a test can script for messages, and the error responses of the REST API.

Tests pass these to `FakeSignal.script`; `server` applies one per message, in order.
"""

from dataclasses import dataclass

from pydantic import JsonValue

from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """An error response."""

    status: int
    text: str = "error of the test"
    challenge_tokens: tuple[str, ...] = ()


Fault = ErrorResponse | DisconnectBefore | DisconnectAfter
FAILED = "Failed to send message"
"""What signal-cli says if the only recipient is not registered, or if the network failed."""
LIMITED = "Failed to send message due to rate limiting"


class ApiError(Exception):
    """An error response of the REST API."""

    def __init__(self, status: int, text: str, challenge_tokens: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.challenge_tokens = challenge_tokens

    def as_json(self, account: str) -> JsonValue:
        """Return the body of the response."""
        if not self.challenge_tokens:
            return {"error": self.text}
        return {
            "error": self.text,
            "challenge_tokens": list(self.challenge_tokens),
            "account": account,
        }
