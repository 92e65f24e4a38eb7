"""Faults that a test can script for calls of the Bot API.

Tests pass these to `FakeTelegram.script`; `server` applies one per call, in order.
"""

from dataclasses import dataclass

from choir_testing.faults import Delay as Delay
from choir_testing.faults import DisconnectAfter as DisconnectAfter
from choir_testing.faults import DisconnectBefore as DisconnectBefore
from choir_testing.faults import NoFault as NoFault


@dataclass(frozen=True, slots=True)
class TooManyRequests:
    """429 with `retry_after` in whole seconds, as Telegram sends it."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class ErrorResponse:
    """Any other error response, with Telegram's wording in `description`."""

    status: int
    description: str


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
