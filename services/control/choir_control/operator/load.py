"""Refuse messages that would wait too long, before they wait. Called by `console`.

By Little's law a message waits for as long as those before it take to be accepted: their number divided by
how many are accepted a second.
"""

import contextlib
import math
from collections import deque
from collections.abc import Iterator

from choir_common.clock import Clock
from choir_common.errors import Unavailable

MOST_WAIT_S = 5.0
# So many at once are always let in: a burst after a quiet time says nothing about the load.
ALWAYS = 32
WINDOW_S = 10.0


class Turn:
    """One message that is being accepted; `done` says that it was."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.done = False


class LoadLimiter:
    """Knows how many messages are being accepted, and how fast."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[int, Turn] = {}
        self._accepted: deque[float] = deque()
        self._next = 0

    @contextlib.contextmanager
    def admitted(self) -> Iterator[Turn]:
        """Count a message while it is accepted. Raises Unavailable when it would wait too long."""
        now = self._clock.monotonic()
        wait_s = self.wait_s(now)
        if wait_s > MOST_WAIT_S:
            again_s = math.ceil(wait_s - MOST_WAIT_S / 2)
            raise Unavailable(
                f"Choir is busy: {len(self._running)} messages are waiting, and yours would wait "
                f"about {math.ceil(wait_s)} s. It was not stored. Send it again in {again_s} s; under "
                "the same idempotency key that is safe however often.",
                retry_after_s=again_s,
            )
        number, turn = self._next, Turn(now)
        self._next += 1
        self._running[number] = turn
        try:
            yield turn
        finally:
            del self._running[number]
            if turn.done:
                self._accepted.append(self._clock.monotonic())

    def wait_s(self, now: float) -> float:
        """Return for how long a message that comes now would wait."""
        while self._accepted and now - self._accepted[0] > WINDOW_S:
            self._accepted.popleft()
        if len(self._running) < ALWAYS:
            return 0.0
        oldest = next(iter(self._running.values())).began
        if not self._accepted:
            return now - oldest
        # Counted from where either began: what was accepted before says how fast, too.
        seconds = min(WINDOW_S, max(now - min(oldest, self._accepted[0]), 0.001))
        return len(self._running) * seconds / len(self._accepted)
