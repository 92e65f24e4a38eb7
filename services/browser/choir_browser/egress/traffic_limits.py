"""Traffic limits of one agent's pages: bytes per minute, requests per second, connections.

proxy.py keeps one allowance per agent; the forwarder spends it chunk by chunk. Pages stay active
between calls, so the limit is per unit of time and not per call.
"""

from dataclasses import dataclass, field

from choir_common.clock import Clock
from choir_common.errors import RateLimited

PERIOD_S = 60.0
# Share of the bucket that must refill first: a trickle is useless to a page and would hide the
# limit.
REFILL_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TrafficLimits:
    """Limits of one agent's pages."""

    bytes_per_minute: int
    connections: int = 64
    """Chromium opens 32 to a proxy for pages and as many for WebSockets; more would be abuse."""
    concurrent_dials: int = 8
    """Concurrent look-ups and connection attempts: a silent name server blocks each for seconds."""
    request_burst: int = 600
    """Requests in a burst; the heaviest pages make about 400 when they load."""
    requests_per_second: float = 100.0
    """Requests per second after the burst; further ones wait. Each costs the worker, which all agents
    share, about a millisecond."""


@dataclass(slots=True)
class TrafficBucket:
    """A token bucket of bytes that refills within a minute and may go negative."""

    rates: TrafficLimits
    clock: Clock
    _balance: float = field(init=False)
    _seen: float = field(init=False)
    _dry: bool = field(init=False, default=False)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        """Start with a full bucket."""
        self._balance, self._seen = float(self.rates.bytes_per_minute), self.clock.monotonic()
        self._next = float("-inf")

    def count_request(self) -> float:
        """Count a request and return how many seconds it has to wait."""
        now, each_s = self.clock.monotonic(), 1 / self.rates.requests_per_second
        self._next = max(self._next, now - self.rates.request_burst * each_s) + each_s
        return max(0.0, self._next - now)

    def is_empty(self) -> bool:
        """Whether the bucket is empty. Once empty, it must refill to a quarter before it is usable again."""
        self._fill()
        return self._dry

    def consume(self, count: int) -> bool:
        """Count transferred bytes; return False if no more may follow."""
        self._fill()
        self._balance -= count
        self._dry = self._dry or self._balance <= 0
        return not self._dry

    def limit_error(self) -> RateLimited:
        """Return the error for an exhausted bucket."""
        megabytes = self.rates.bytes_per_minute / 1_000_000
        return RateLimited(
            f"The pages of this agent have transferred {megabytes:g} MB within a minute, which is their "
            "limit. Close unneeded tabs and continue in a minute."
        )

    def _fill(self) -> None:
        now = self.clock.monotonic()
        refill = (now - self._seen) / PERIOD_S * self.rates.bytes_per_minute
        self._balance = min(float(self.rates.bytes_per_minute), self._balance + refill)
        self._seen = now
        if self._balance >= self.rates.bytes_per_minute * REFILL_SHARE:
            self._dry = False
