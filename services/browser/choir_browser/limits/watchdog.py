"""Watchdog for Chromium's processes: slow down and kill those that use too many resources.

kill_policy.py decides and stores the reasons, processes.py acts.
"""

import asyncio
import os
from collections.abc import Sequence
from typing import Protocol

import structlog

from choir_browser.limits import processes
from choir_browser.limits.kill_policy import (
    LOW_PRIORITY_AFTER_S,
    KillReasons,
    PageOwners,
    ResourceLimits,
    choose_kills,
    excess_cpu_s,
    needs_owners,
)
from choir_browser.limits.processes import ProcessSample
from choir_common.clock import Clock

log = structlog.get_logger("choir.browser.limits")

# A page can fill 1 GB in about a second.
CHECK_INTERVAL_S = 0.25
OWNERS_TIMEOUT_S = 5.0
# Chromium needs a third of a second to report which pages a process shows.
OWNERS_INTERVAL_S = 3.0


class PageProcessSource(Protocol):
    """Source of the processes that show each agent's pages."""

    async def page_processes(self) -> PageOwners:
        """Return the ids of the processes, by agent."""
        ...


class ProcessWatchdog:
    """Periodically checks the Chromium processes below this process."""

    def __init__(
        self,
        limits: ResourceLimits,
        *,
        page_processes: PageProcessSource,
        kill_reasons: KillReasons,
        clock: Clock,
    ) -> None:
        self._limits = limits
        self._page_processes = page_processes
        self._kill_reasons = kill_reasons
        self._clock = clock
        self._before: dict[tuple[int, int], ProcessSample] = {}
        self._excess_s: dict[int, float] = {}
        self._low_priority: set[tuple[int, int]] = set()
        self._checked_at = clock.monotonic()
        self._owners_read_at = float("-inf")

    async def run(self) -> None:
        """Check periodically until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                await self.check()
            except Exception:  # outermost loop: one failure must not stop the watchdog
                log.exception("checking the browser's processes failed")

    async def check(self) -> None:
        """Check once, and act."""
        samples = await asyncio.to_thread(processes.chromium_processes, os.getpid())
        now = self._clock.monotonic()
        self._measure(samples, now)
        for process in samples:
            if process.renderer and self._excess_s.get(process.pid, 0.0) > LOW_PRIORITY_AFTER_S:
                await self._slow_down(process)
        owners = await self._owners(samples, now)
        for kill in choose_kills(samples, self._excess_s, owners, self._limits):
            process = kill.process
            log.warning("page killed", reason=kill.reason, pid=process.pid, memory=process.memory)
            self._kill_reasons.record(kill.reason)
            await asyncio.to_thread(processes.kill_process, process)

    def _measure(self, samples: Sequence[ProcessSample], now: float) -> None:
        """Update each process's excess processor seconds."""
        seconds, self._checked_at = now - self._checked_at, now
        previous, self._before = self._before, {(p.pid, p.started): p for p in samples}
        excesses: dict[int, float] = {}
        for key, process in self._before.items():
            before = previous.get(key)
            if before is not None:
                used_s = process.cpu_s - before.cpu_s
                excess_s = self._excess_s.get(process.pid, 0.0)
                excesses[process.pid] = excess_cpu_s(excess_s, used_s, seconds)
        self._excess_s = excesses

    async def _slow_down(self, process: ProcessSample) -> None:
        """Lower a page's priority permanently: a page that did this once does it again."""
        key = (process.pid, process.started)
        if key not in self._low_priority:
            self._low_priority = (self._low_priority & set(self._before)) | {key}
            log.info("page priority lowered", pid=process.pid)
            await asyncio.to_thread(processes.set_idle_priority, process.pid)

    async def _owners(self, samples: Sequence[ProcessSample], now: float) -> PageOwners:
        due = now - self._owners_read_at >= OWNERS_INTERVAL_S
        if not due or not needs_owners(samples, self._limits):
            return {}
        self._owners_read_at = now
        try:
            async with asyncio.timeout(OWNERS_TIMEOUT_S):
                return await self._page_processes.page_processes()
        except TimeoutError:
            return {}
