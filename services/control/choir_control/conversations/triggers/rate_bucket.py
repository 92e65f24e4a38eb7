"""Token bucket of a trigger."""

from dataclasses import dataclass


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
