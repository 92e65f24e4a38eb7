"""Clocks, passed in as a `Clock` so that tests can control time.

Wall time is for timestamps that people read. Leases and timeouts use `monotonic`, which never jumps.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of wall time (aware UTC) and of monotonic seconds."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyClock:
    """Wall time that is not affected when the system clock is set.

    It reads the wall clock once and then advances with the monotonic clock.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at, self._began = clock.now(), clock.monotonic()

    def now(self) -> datetime:
        """Return the wall time at creation plus the monotonic time since then."""
        return self._began_at + timedelta(seconds=self._clock.monotonic() - self._began)
