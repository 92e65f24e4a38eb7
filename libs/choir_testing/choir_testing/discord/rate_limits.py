"""Rate limits of the fake Discord: a bucket per route and channel, announced by headers.

Discord does not publish the numbers and changes them; these are those of writing messages.
"""

import time
from collections import deque
from dataclasses import dataclass, field

from choir_testing.discord.faults import ApiError

WINDOW_S = 5.0


@dataclass(slots=True)
class RateLimits:
    """Recent calls of one bot by bucket."""

    per_window: int = 5
    refused: int = 0
    _calls: dict[str, deque[float]] = field(default_factory=dict)

    def count(self, bucket: str) -> dict[str, str]:
        """Count a call and return the headers. Raises ApiError 429 above the limit."""
        now = time.monotonic()
        recent = self._calls.setdefault(bucket, deque())
        while recent and recent[0] <= now - WINDOW_S:
            recent.popleft()
        if len(recent) >= self.per_window:
            self.refused += 1
            wait_s = round(WINDOW_S - (now - recent[0]), 3)
            raise ApiError(429, 0, "You are being rate limited.", retry_after=wait_s)
        recent.append(now)
        reset_after = WINDOW_S - (now - recent[0])
        return {
            "X-RateLimit-Bucket": str(abs(hash(bucket.partition(":")[0]))),
            "X-RateLimit-Limit": str(self.per_window),
            "X-RateLimit-Remaining": str(self.per_window - len(recent)),
            "X-RateLimit-Reset": str(time.time() + reset_after),
            "X-RateLimit-Reset-After": str(round(reset_after, 3)),
        }
