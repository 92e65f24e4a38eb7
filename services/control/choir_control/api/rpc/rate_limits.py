"""Limits for the requests of one session: rate, concurrency and size.

Each class of verbs has its own
token bucket, so that tool calls never delay a heartbeat.
"""

import contextlib
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from choir_common.clock import Clock
from choir_common.errors import RateLimited

KIB, MIB = 1 << 10, 1 << 20

# Sessions in memory; one that was dropped starts with full buckets.
SESSIONS = 2_000


@dataclass(frozen=True, slots=True)
class RateLimit:
    """The limits of a class of requests: rate and burst, concurrency, body size in bytes."""

    per_s: float
    burst: float
    at_once: int
    max_body: int


# A heartbeat has room for a thousand events of some kilobytes. A busy agent sends a few hundred
# heartbeats a second.
HEARTBEAT_LIMIT = RateLimit(2_000, 4_000, 32, 4_000_000)
TOOL_LIMIT = RateLimit(100, 400, 64, MIB)
APPROVAL_LIMIT = RateLimit(20, 60, 16, 2 * MIB)
QUERY_LIMIT = RateLimit(100, 400, 32, 256 * KIB)
STREAM_LIMIT = RateLimit(5, 30, 8, KIB)

VERB_LIMITS = {
    "INIT_HELLO": HEARTBEAT_LIMIT,
    "HEARTBEAT": HEARTBEAT_LIMIT,
    "TERMINATE_SELF": HEARTBEAT_LIMIT,
    "EXECUTE_HOST_TOOL": TOOL_LIMIT,
    "REQUEST_APPROVAL": APPROVAL_LIMIT,
    "GET_SECRETS": QUERY_LIMIT,
    "FETCH_DYNAMIC_CONFIG": QUERY_LIMIT,
    "REPORT_STATUS": QUERY_LIMIT,
}
# For the bodies of all requests of a session, in bytes: ten full heartbeats a second, and a burst.
BYTE_LIMIT = RateLimit(40 * MIB, 160 * MIB, 0, 0)


@dataclass(slots=True)
class TokenBucket:
    """A token bucket with a counter of running requests."""

    tokens: float
    at: float
    running: int = 0

    def wait_s(self, allowance: RateLimit, cost: float, now: float) -> float:
        """Take `cost` tokens and return 0; or take none and return the seconds until there are enough."""
        self.tokens = min(allowance.burst, self.tokens + max(0.0, now - self.at) * allowance.per_s)
        self.at = now
        if self.tokens >= cost:
            self.tokens -= cost
            return 0.0
        return (cost - self.tokens) / allowance.per_s


@dataclass(slots=True)
class SessionRateLimiter:
    """The token buckets of all sessions."""

    clock: Clock
    _sessions: OrderedDict[str, dict[RateLimit, TokenBucket]] = field(default_factory=OrderedDict)

    @contextlib.contextmanager
    def admitted(self, session_id: str, allowance: RateLimit) -> Iterator[None]:
        """Count a request while it runs; raises RateLimited if there are too many."""
        bucket = self._take(session_id, allowance, 1)
        if bucket.running >= allowance.at_once:
            raise RateLimited(
                f"This session has {bucket.running} such requests running; wait until one ends.",
                retry_after_s=1.0,
            )
        bucket.running += 1
        try:
            yield
        finally:
            bucket.running -= 1

    def weigh(self, session_id: str, size: int) -> None:
        """Count the size of a body; raises RateLimited if the session sends too much."""
        self._take(session_id, BYTE_LIMIT, size)

    def _take(self, session_id: str, allowance: RateLimit, cost: float) -> TokenBucket:
        now = self.clock.monotonic()
        buckets = self._sessions.setdefault(session_id, {})
        self._sessions.move_to_end(session_id)
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        bucket = buckets.setdefault(allowance, TokenBucket(allowance.burst, now))
        wait_s = bucket.wait_s(allowance, cost, now)
        if wait_s:
            unit = "bytes" if allowance is BYTE_LIMIT else "requests of this kind"
            raise RateLimited(
                f"This session sends more than {allowance.per_s:g} {unit} per second.",
                retry_after_s=wait_s,
            )
        return bucket
