"""The worker that starts due runs and stores how they ended.

It sleeps until the next start. It also looks at the clock now and then, because that may have been set.
"""

import asyncio
import contextlib
from datetime import datetime

import structlog

from choir_common.clock import Clock
from choir_common.errors import OutcomeUnknown, Unavailable
from choir_control.conversations.schedules.planning import plan
from choir_control.conversations.schedules.run_store import PAGE, RunStore
from choir_control.conversations.schedules.starter import RunStarter, blocked_reason

log = structlog.get_logger("choir.schedules")

POLL_S = 20.0
OPEN_RUNS_POLL_S = 2.0
"""Pause between two looks while a run is open: its end is stored by other parts of control."""
RETRY_S = 1.0


class ScheduleRunner:
    """Worker that starts due runs."""

    def __init__(self, store: RunStore, *, starter: RunStarter, clock: Clock) -> None:
        self._store = store
        self._starter = starter
        self._clock = clock
        self._wake = asyncio.Event()

    def wake(self) -> None:
        """Look at the schedules now, because one was created or changed."""
        self._wake.set()

    async def run(self) -> None:
        """Start due runs until cancelled."""
        while True:
            self._wake.clear()
            wait_s = RETRY_S
            try:
                wait_s = await self.tick()
            except (Unavailable, OutcomeUnknown) as error:
                log.warning("schedules wait for the database", error=error.message)
            except Exception:  # outermost loop of the worker: retry
                log.exception("schedules could not be run")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def tick(self) -> float:
        """Store the ends of runs and start what is due; return the seconds until the next look."""
        now = self._clock.now()
        await self._store.settle(now)
        is_more = await self._start_due(now)
        if is_more:
            return 0.0
        work = await self._store.read_next(now)
        wait_s = OPEN_RUNS_POLL_S if work.has_open_runs else POLL_S
        if work.at is not None:
            wait_s = min(wait_s, max(0.0, (work.at - self._clock.now()).total_seconds()))
        return wait_s

    async def _start_due(self, now: datetime) -> bool:
        """Plan each schedule that is ready; return whether there may be more of them."""
        ready = await self._store.list_ready(now)
        changed = 0
        for item in ready:
            change = plan(item.schedule, now, blocked_reason(item.schedule, item.live_dm))
            if change is not None and await self._starter.apply(item.schedule, change, now):
                changed += 1
        if changed:
            log.info("schedules planned", count=changed)
        return changed > 0 and len(ready) == PAGE
