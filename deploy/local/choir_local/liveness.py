"""Liveness: notice that a child runs but no longer answers, and how often it may be replaced for that.

Called by `supervisor`, with probes made by `services`.
"""

import asyncio
import time
from asyncio.subprocess import Process
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from choir_local.running import Ready


@dataclass(frozen=True, slots=True)
class Probe:
    """How a child is asked whether it still answers.

    Failed probes are counted, not seconds: a machine that slept, or a supervisor that stood still, says
    nothing about its children.
    """

    answers: Ready
    every: timedelta = timedelta(seconds=5)
    failures: int = 3
    """So many failed probes, one after the other, mean that it hangs."""


@dataclass(slots=True)
class ReplacementBudget:
    """How often a child that hangs is replaced: a machine that is too slow for it is not helped by more."""

    most: int = 3
    within: timedelta = timedelta(minutes=10)
    _taken: deque[float] = field(default_factory=deque)

    def take(self) -> bool:
        """Take one replacement; False when all of the last `within` are used up."""
        now = time.monotonic()
        while self._taken and now - self._taken[0] > self.within.total_seconds():
            self._taken.popleft()
        if len(self._taken) >= self.most:
            return False
        self._taken.append(now)
        return True


async def await_hang(process: Process, probe: Probe) -> bool:
    """Return True once the child fails its probes, False once it has ended."""
    ended = asyncio.ensure_future(process.wait())
    failed = 0
    try:
        while failed < probe.failures:
            await asyncio.wait((ended,), timeout=probe.every.total_seconds())
            if ended.done():
                return False
            failed = 0 if await probe.answers(process.pid) else failed + 1
        return not ended.done()
    finally:
        ended.cancel()
