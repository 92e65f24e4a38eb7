"""Why a page was ended, for the moment at which its agent learns that it crashed.

Written by watch.py; read by pages/tab.py when Chromium says of a page that it crashed, and no more, and by
contexts/rooms.py when the whole browser is gone.
"""

from collections import deque

from choir_common.clock import Clock

# From the kill of a process until Playwright reports the crash of its page.
TOLD_WITHIN_S = 10.0
KEPT = 16


class Endings:
    """The last few pages that were ended on purpose."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last: deque[tuple[float, str]] = deque(maxlen=KEPT)

    def note(self, why: str) -> None:
        """Remember that a page is ended now."""
        self._last.append((self._clock.monotonic(), why))

    def recent(self) -> str | None:
        """Give the reason of an ending a moment ago, once."""
        while self._last:
            at, why = self._last.popleft()
            if self._clock.monotonic() - at <= TOLD_WITHIN_S:
                return why
        return None
