"""Keep the one engine: start it when first wanted, replace it when it died, end it when idle.

Called by rooms.py; the idle watch is a task of app.py.
"""

import asyncio
from datetime import timedelta

import structlog

from choir_browser.pages.port import Engine, EngineStarter, Launch
from choir_common.clock import Clock

log = structlog.get_logger("choir.browser.contexts")


class EngineKeeper:
    """At most one engine at a time, started on demand."""

    def __init__(self, start: EngineStarter, launch: Launch, clock: Clock) -> None:
        self._start = start
        self._launch = launch
        self._clock = clock
        self._engine: Engine | None = None
        self._changing = asyncio.Lock()
        self._users = 0
        self._used_at = clock.monotonic()
        self._failure: str | None = None

    @property
    def running(self) -> Engine | None:
        """The engine if it is up."""
        return self._engine if self._engine is not None and self._engine.alive else None

    async def engine(self) -> Engine:
        """Give a live engine; raises Unavailable when none can be started."""
        async with self._changing:
            if self._engine is not None and self._engine.alive:
                return self._engine
            if self._engine is not None:
                log.warning("the browser died and is replaced")
                await self._end()
            self._engine = await self._start(self._launch)
            return self._engine

    def touch(self) -> None:
        """Note that the engine is in use now."""
        self._used_at = self._clock.monotonic()

    def idle_for(self) -> timedelta:
        """Tell how long nobody has used the engine."""
        return timedelta(seconds=self._clock.monotonic() - self._used_at)

    async def end(self) -> None:
        """End the engine, if there is one."""
        async with self._changing:
            await self._end()

    async def _end(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()
