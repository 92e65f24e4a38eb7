"""What can be scripted to go wrong with one call of the Bot API.

Tests hand these to `FakeTelegram.script`; server.py acts on them, one per call, in order.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flood:
    """429 with `retry_after` (whole seconds, as Telegram gives it)."""

    retry_after: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Any other error answer, with Telegram's own wording in `description`."""

    status: int
    description: str


@dataclass(frozen=True, slots=True)
class DropBefore:
    """Cut the connection and do nothing."""


@dataclass(frozen=True, slots=True)
class DropAfter:
    """Do what was asked, then cut the connection before the answer: the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Slow:
    """Answer properly, but only after `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Pass:
    """Answer properly: lets a script fail the third call and not the first two."""


Fault = Flood | Refuse | DropBefore | DropAfter | Slow | Pass


class BotApiError(Exception):
    """An error answer of the Bot API."""

    def __init__(self, status: int, description: str, retry_after: int | None = None) -> None:
        super().__init__(description)
        self.status = status
        self.description = description
        self.retry_after = retry_after


def bad_request(reason: str) -> BotApiError:
    """Word a 400 as Telegram does."""
    return BotApiError(400, f"Bad Request: {reason}")
