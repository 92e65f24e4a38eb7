"""Admission control for messages: refuse those that would wait too long.

The waiting time follows from Little's law: the number of messages in progress divided by the rate at
which they are accepted.
"""

import contextlib
import math
from collections import deque
from collections.abc import Iterator

from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_common.i18n import _

MAX_WAIT_S = 5.0
# This many at once are always admitted: a burst after a quiet time does not indicate overload.
ALWAYS_ADMITTED = 32
WINDOW_S = 10.0


class MessageInProgress:
    """A message in progress; `done` is True once it was accepted."""

    def __init__(self, began: float) -> None:
        self.started_at = began
        self.accepted = False


class LoadLimiter:
    """Tracks the messages in progress and the rate at which they are accepted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._running: dict[int, MessageInProgress] = {}
        self._accepted: deque[float] = deque()
        self._next = 0

    @contextlib.contextmanager
    def admit(self) -> Iterator[MessageInProgress]:
        """Track a message while it is being accepted. Raises Unavailable when it would wait too long."""
        now = self._clock.monotonic()
        wait_s = self.expected_wait_s(now)
        if wait_s > MAX_WAIT_S:
            again_s = math.ceil(wait_s - MAX_WAIT_S / 2)
            raise Unavailable(
                _(
                    "Choir is busy: {count} messages are waiting, and yours would wait about {wait_s} s. It "
                    "was not stored. Send it again in {again_s} s; under the same idempotency key, repeating "
                    "it is safe."
                ).format(count=len(self._running), wait_s=math.ceil(wait_s), again_s=again_s),
                retry_after_s=again_s,
            )
        number, turn = self._next, MessageInProgress(now)
        self._next += 1
        self._running[number] = turn
        try:
            yield turn
        finally:
            del self._running[number]
            if turn.accepted:
                self._accepted.append(self._clock.monotonic())

    def expected_wait_s(self, now: float) -> float:
        """Return the expected waiting time of a message that arrives at `now`, in seconds."""
        while self._accepted and now - self._accepted[0] > WINDOW_S:
            self._accepted.popleft()
        if len(self._running) < ALWAYS_ADMITTED:
            return 0.0
        oldest = next(iter(self._running.values())).started_at
        if not self._accepted:
            return now - oldest
        # From the earlier of both starts, so that the window includes the rate of earlier messages.
        seconds = min(WINDOW_S, max(now - min(oldest, self._accepted[0]), 0.001))
        return len(self._running) * seconds / len(self._accepted)
