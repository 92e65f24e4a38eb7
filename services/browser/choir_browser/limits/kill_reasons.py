"""Reasons why pages were killed, until the crash of the page is reported to its agent.

Chromium reports only that a page, or the whole browser, crashed.
"""

from collections import deque

from choir_common.clock import Clock

# From the kill of a process until Playwright reports the crash of its page.
REASON_VALID_S = 10.0
MAX_REASONS = 16


class KillReasons:
    """The most recent pages that were killed on purpose."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[tuple[float, str]] = deque(maxlen=MAX_REASONS)

    def record(self, why: str) -> None:
        """Record the reason of a kill that happens now."""
        self._last.append((self._clock.monotonic(), why))

    def pop_recent(self) -> str | None:
        """Return the reason of a recent kill and remove it, or None."""
        while self._last:
            at, why = self._last.popleft()
            if self._clock.monotonic() - at <= REASON_VALID_S:
                return why
        return None
