"""Deadline and timing of a search; optional work is cut when the time is up. One instance per query."""

import asyncio
import contextlib
from collections.abc import Iterator

from choir_common.clock import Clock


class QueryTimer:
    """Timer for the stages of a query, with its deadline."""

    def __init__(self, clock: Clock, deadline_s: float) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._deadline_s = deadline_s
        self.cut: list[str] = []
        self.took_ms: dict[str, float] = {}

    def limit(self) -> asyncio.Timeout:
        """Return a timeout for optional work that raises TimeoutError at the query's deadline."""
        return asyncio.timeout(max(0.0, self._deadline_s - self._gone_s()))

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Record how long the block took; a block that raises is not recorded."""
        began = self._clock.monotonic()
        yield
        self.took_ms[name] = round((self._clock.monotonic() - began) * 1000, 3)

    @contextlib.contextmanager
    def optional(self, name: str) -> Iterator[None]:
        """Suppress TimeoutError and record the stage as cut."""
        try:
            with self.stage(name):
                yield
        except TimeoutError:
            self.cut.append(name)

    def total_ms(self) -> float:
        """Return the time since the query started."""
        return round(self._gone_s() * 1000, 3)

    def _gone_s(self) -> float:
        return self._clock.monotonic() - self._began
