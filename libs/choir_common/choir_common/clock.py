"""Tell the time; a `Clock` is passed in, so that tests can set it.

Wall time is for stamps that people read; leases and timeouts use `monotonic`, which never jumps.
"""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of wall time (aware UTC) and of seconds that only grow."""

    def now(self) -> datetime: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


class SteadyTime:
    """Wall time as it goes on from when this is made: a clock that is set moves it not at all."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_at, self._began = clock.now(), clock.monotonic()

    def now(self) -> datetime:
        """Return the time it would be."""
        return self._began_at + timedelta(seconds=self._clock.monotonic() - self._began)
