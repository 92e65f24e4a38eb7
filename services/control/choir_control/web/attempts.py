"""Limit on failed sign-ins by network address. In memory."""

from choir_common.clock import Clock
from choir_common.errors import RateLimited
from choir_common.i18n import _

MAX_FAILURES = 10
WINDOW_S = 60.0
MAX_ADDRESSES = 1000


class SignInLimiter:
    """Failed sign-ins of the last minute by address.

    Behind a reverse proxy all browsers have one address. The tokens cannot be guessed in any case: the limit
    keeps attempts from filling the log.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, list[float]] = {}

    def check(self, address: str) -> None:
        """Raise RateLimited if the address has failed too often."""
        recent = self._recent(address)
        if len(recent) >= MAX_FAILURES:
            wait_s = WINDOW_S - (self._clock.monotonic() - recent[0])
            raise RateLimited(
                _("Too many failed sign-ins. Try again in a minute."), retry_after_s=wait_s
            )

    def count_failure(self, address: str) -> None:
        """Count a failed sign-in."""
        recent = self._recent(address)
        self._failures.pop(address, None)
        self._failures[address] = [*recent, self._clock.monotonic()]
        while len(self._failures) > MAX_ADDRESSES:
            del self._failures[next(iter(self._failures))]

    def _recent(self, address: str) -> list[float]:
        since = self._clock.monotonic() - WINDOW_S
        return [at for at in self._failures.get(address, ()) if at > since]
