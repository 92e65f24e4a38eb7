"""Tell the time; a `Clock` is passed in, so that tests can set it.

Wall time is for stamps that people read; leases and timeouts use `monotonic`, which never jumps.
"""

import time
from datetime import UTC, datetime
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
