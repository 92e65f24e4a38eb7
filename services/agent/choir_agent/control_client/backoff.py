"""Backoff schedule for all retries towards control."""

import random

FIRST_S = 0.05
LONGEST_S = 2.0


class Backoff:
    """Pauses of 50 ms, doubling up to 2 s, with jitter so that agents do not retry in step."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def pause_s(self) -> float:
        """Return the seconds to wait now; the next pause is twice as long."""
        pause = self._next_s * random.uniform(0.7, 1.3)  # noqa: S311 - jitter, not a secret
        self._next_s = min(self._next_s * 2, LONGEST_S)
        return pause

    def reset(self) -> None:
        """Start over after a success."""
        self._next_s = FIRST_S
