"""Detection of children that run but no longer answer, and a limit on their replacements.

Used by `Supervisor`, with probes created in `services`.
"""

import asyncio
import time
from asyncio.subprocess import Process
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta

from choir_local.running import Ready


@dataclass(frozen=True, slots=True)
class LivenessProbe:
    """Liveness check of a child.

    Failed probes are counted instead of seconds: after a suspend of the machine or a pause of the supervisor,
    elapsed time is no evidence about the children.
    """

    answers: Ready
    every: timedelta = timedelta(seconds=5)
    failures: int = 3
    """Number of consecutive failures after which the child counts as hung."""


@dataclass(slots=True)
class ReplacementBudget:
    """Limit on replacements of a hung child, since more of them do not help on an overloaded machine."""

    most: int = 3
    within: timedelta = timedelta(minutes=10)
    _taken: deque[float] = field(default_factory=deque)

    def try_use(self) -> bool:
        """Use one replacement; return False when all of the last `within` are used up."""
        now = time.monotonic()
        while self._taken and now - self._taken[0] > self.within.total_seconds():
            self._taken.popleft()
        if len(self._taken) >= self.most:
            return False
        self._taken.append(now)
        return True


async def wait_for_hang(process: Process, probe: LivenessProbe) -> bool:
    """Return True once the child fails its probes, False once it has ended."""
    ended = asyncio.ensure_future(process.wait())
    failed = 0
    try:
        while failed < probe.failures:
            await asyncio.wait((ended,), timeout=probe.every.total_seconds())
            if ended.done():
                return False
            # only consecutive failures count
            failed = 0 if await probe.answers(process.pid) else failed + 1
        return not ended.done()
    finally:
        ended.cancel()
