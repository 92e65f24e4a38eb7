"""Rate limits of the fake Slack: one message a second in a channel, with short bursts."""

import math
import time
from dataclasses import dataclass, field

from choir_testing.slack.faults import ApiError

BURST = 4
PER_SECOND = 1.0


@dataclass(slots=True)
class RateLimits:
    """What is left in each channel, and at what time that was."""

    left: dict[str, tuple[float, float]] = field(default_factory=dict)
    refused: int = 0
    """How many calls were refused."""

    def count(self, channel: str) -> None:
        """Count a message. Raises ApiError with 429."""
        now = time.monotonic()
        left, counted_at = self.left.get(channel, (float(BURST), now))
        left = min(left + (now - counted_at) * PER_SECOND, BURST)
        if left < 1:
            self.left[channel] = (left, now)
            self.refused += 1
            raise ApiError("ratelimited", retry_after=math.ceil((1 - left) / PER_SECOND))
        self.left[channel] = (left - 1, now)
