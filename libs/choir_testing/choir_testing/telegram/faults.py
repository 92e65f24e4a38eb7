"""Faults that a test can script for calls of the Bot API.

Tests pass these to `FakeTelegram.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429 with `retry_after` in whole seconds, as Telegram sends it."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Any other error response, with Telegram's wording in `description`."""

    status: int
    description: str


@dataclass(frozen=True, slots=True)
class DisconnectBefore:
    """Cut the connection without running the method."""


@dataclass(frozen=True, slots=True)
class DisconnectAfter:
    """Run the method, then cut the connection before the response: the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Delay:
    """Respond normally, but only after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class NoFault:
    """Respond normally, so that a script can fail the third call and not the first two."""


Fault = TooManyRequests | ErrorResponse | DisconnectBefore | DisconnectAfter | Delay | NoFault


class BotApiError(Exception):
    """An error response of the Bot API."""

    def __init__(self, status: int, description: str, retry_after: int | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.retry_after = retry_after


def bad_request(reason: str) -> BotApiError:
    """Return a 400 with Telegram's wording."""
    return BotApiError(400, f"Bad Request: {reason}")
