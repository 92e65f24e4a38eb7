"""The time a search may take: what is optional is cut when it is up. Made by `recall`, one a query."""

import asyncio
import contextlib
from collections.abc import Iterator

from choir_common.clock import Clock


class Stages:
    """Counts a query's time, stage by stage."""

    def __init__(self, clock: Clock, deadline_s: float) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._deadline_s = deadline_s
        self.cut: list[str] = []
        self.took_ms: dict[str, float] = {}

    def limit(self) -> asyncio.Timeout:
        """Return a time limit for optional work: TimeoutError when the query's time is up."""
        return asyncio.timeout(max(0.0, self._deadline_s - self._gone_s()))

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Note how long the work inside took; what does not come to its end is not noted."""
        began = self._clock.monotonic()
        yield
        self.took_ms[name] = round((self._clock.monotonic() - began) * 1000, 3)

    @contextlib.contextmanager
    def optional(self, name: str) -> Iterator[None]:
        """Swallow the end of the time, and remember what was cut."""
        try:
            with self.stage(name):
                yield
        except TimeoutError:
            self.cut.append(name)

    def total_ms(self) -> float:
        """Return the time since the query came."""
        return round(self._gone_s() * 1000, 3)

    def _gone_s(self) -> float:
        return self._clock.monotonic() - self._began
