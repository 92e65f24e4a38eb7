"""Detection of children that run but no longer answer, and a limit on their replacements.

Used by `Supervisor`, with probes created in `services`.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

from choir_common.forks.client import ChildProcess


class LivenessCheck(Protocol):
    """Check of a running child."""

    async def is_alive(self, pid: int) -> bool:
        """Return whether the child with this pid still answers."""


@dataclass(frozen=True, slots=True)
class LivenessProbe:
    """How often a child is checked, and how many failures count as a hang.

    Failed probes are counted instead of seconds: after a suspend of the machine or a pause of the supervisor,
    elapsed time is no evidence about the children.
    """

    every: timedelta = timedelta(seconds=5)
    failures: int = 3
    """Number of consecutive failures after which the child counts as hung."""


@dataclass(slots=True)
class ReplacementBudget:
    """Limit on replacements of a hung child, since more of them do not help on an overloaded machine."""

    most: int = 3
    within: timedelta = timedelta(minutes=10)
    _times: deque[float] = field(default_factory=deque)

    def try_use(self) -> bool:
        """Use one replacement; return False when all of the last `within` are used up."""
        now = time.monotonic()
        while self._times and now - self._times[0] > self.within.total_seconds():
            self._times.popleft()
        if len(self._times) >= self.most:
            return False
        self._times.append(now)
        return True


async def wait_for_hang(process: ChildProcess, check: LivenessCheck, probe: LivenessProbe) -> bool:
    """Return True once the child fails its probes, False once it has ended."""
    exit_task = asyncio.ensure_future(process.wait())
    failures = 0
    try:
        while failures < probe.failures:
            await asyncio.wait((exit_task,), timeout=probe.every.total_seconds())
            if exit_task.done():
                return False
            # only consecutive failures count
            failures = 0 if await check.is_alive(process.pid) else failures + 1
        return not exit_task.done()
    finally:
        exit_task.cancel()
