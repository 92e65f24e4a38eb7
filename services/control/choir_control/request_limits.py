"""Limits on requests, in memory: a bucket of events in a minute, and the open requests of each key."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from choir_common.errors import RateLimited

RETRY_AFTER_S = 5.0


@dataclass(slots=True)
class RateBucket:
    """Number of events that are allowed now; it grows with time up to those of a minute."""

    tokens: float
    at: float
    """Monotonic time of the last look, in seconds."""

    def wait_s(self, per_minute: int, now: float) -> float:
        """Take one and return 0; or take none and return the seconds until there is one."""
        per_s = per_minute / 60
        self.tokens = min(float(per_minute), self.tokens + (now - self.at) * per_s)
        self.at = now
        if self.tokens >= 1:
            self.tokens -= 1
            return 0.0
        return (1 - self.tokens) / per_s


class OpenRequestLimit:
    """Open requests of one kind by key, such as a client: one must not take all that the endpoint allows."""

    def __init__(self, most: int, refusal: str, *, retry_after_s: float = RETRY_AFTER_S) -> None:
        self._most = most
        self._refusal = refusal
        self._retry_after_s = retry_after_s
        self._open: Counter[str] = Counter()

    def admit(self, key: str) -> AbstractContextManager[None]:
        """Return a context manager that counts a request; raises RateLimited if the key has too many."""
        if self._open[key] >= self._most:
            raise RateLimited(self._refusal, retry_after_s=self._retry_after_s)
        return self._count(key)

    @contextlib.contextmanager
    def _count(self, key: str) -> Iterator[None]:
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]
