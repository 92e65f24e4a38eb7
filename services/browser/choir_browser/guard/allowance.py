"""What one agent's pages may use of the way out: bytes by the minute, requests by the second, connections.

Kept by proxy.py for each pass, spent by forwarding.py chunk by chunk. Pages go on between calls, so the
measure is time and not the call.
"""

from dataclasses import dataclass, field

from choir_common.clock import Clock
from choir_common.errors import RateLimited

PERIOD_S = 60.0
# What trickles in is no use to a page, and would hide why it breaks off.
GATHERED = 0.25


@dataclass(frozen=True, slots=True)
class Rates:
    """The most that one agent's pages get."""

    bytes_per_minute: int
    connections: int = 64
    """Chromium opens 32 to a proxy for pages and as many for sockets; more is somebody's game."""
    dials: int = 8
    """Names that are looked up and addresses that are called at the same time: a name server that
    keeps silent holds each for seconds."""
    at_once: int = 600
    """Requests without a pause; the heaviest pages make some 400 when they load."""
    per_second: float = 100.0
    """Requests after those. What goes beyond waits: each costs the worker, which all agents share,
    about a millisecond."""


@dataclass(slots=True)
class Allowance:
    """A bucket that fills up within a minute; what was overdrawn is paid back first."""

    rates: Rates
    clock: Clock
    _left: float = field(init=False)
    _seen: float = field(init=False)
    _dry: bool = field(init=False, default=False)
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a full bucket."""
        self._left, self._seen = float(self.rates.bytes_per_minute), self.clock.monotonic()
        self._next = float("-inf")

    def wait_s(self) -> float:
        """Count one more request; tell how long it has to wait for its turn."""
        now, each_s = self.clock.monotonic(), 1 / self.rates.per_second
        self._next = max(self._next, now - self.rates.at_once * each_s) + each_s
        return max(0.0, self._next - now)

    def used_up(self) -> bool:
        """Whether nothing is left for now: once dry, it has to gather before it gives again."""
        self._fill()
        return self._dry

    def spend(self, count: int) -> bool:
        """Count bytes that passed; False when no more may follow them."""
        self._fill()
        self._left -= count
        self._dry = self._dry or self._left <= 0
        return not self._dry

    def refusal(self) -> RateLimited:
        """Say what was used up."""
        megabytes = self.rates.bytes_per_minute / 1_000_000
        return RateLimited(
            f"The pages of this agent have moved {megabytes:g} MB within a minute, which is all they "
            "may. Close what is not needed and go on in a minute."
        )

    def _fill(self) -> None:
        now = self.clock.monotonic()
        gained = (now - self._seen) / PERIOD_S * self.rates.bytes_per_minute
        self._left = min(float(self.rates.bytes_per_minute), self._left + gained)
        self._seen = now
        if self._left >= self.rates.bytes_per_minute * GATHERED:
            self._dry = False
