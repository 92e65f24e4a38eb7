"""Backoff schedule of retries."""

import random

FIRST_S = 0.05
MAX_S = 2.0
JITTER = 0.3


class Backoff:
    """Pauses that double up to a limit, with jitter so that processes do not retry in step."""

    def __init__(
        self, first_s: float = FIRST_S, max_s: float = MAX_S, jitter: float = JITTER
    ) -> None:
        self._first_s = first_s
        self._max_s = max_s
        self._jitter = jitter
        self._next_s = first_s

    def pause_s(self) -> float:
        """Return the seconds to wait now; the next pause is twice as long."""
        factor = random.uniform(1 - self._jitter, 1 + self._jitter)  # noqa: S311 - jitter, not a secret
        pause_s = self._next_s * factor
        self._next_s = min(self._next_s * 2, self._max_s)
        return pause_s

    @property
    def is_at_limit(self) -> bool:
        """Whether the pauses no longer grow."""
        return self._next_s >= self._max_s

    def reset(self) -> None:
        """Start over after a success."""
        self._next_s = self._first_s
