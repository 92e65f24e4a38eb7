"""Lifecycle of the one browser engine: start on demand, replace after a crash, stop when idle."""

import asyncio
from datetime import timedelta
from types import ModuleType

import structlog

from choir_browser.pages.chromium_program import NO_PLAYWRIGHT
from choir_browser.pages.engine import Engine, EngineLauncher, LaunchOptions
from choir_common.clock import Clock
from choir_common.errors import Unavailable
from choir_common.extras import has_extra

log = structlog.get_logger("choir.browser.contexts")


class ChromiumLauncher:
    """Launcher that imports Playwright for the first engine.

    That takes 16 MB and a third of a second, which a service that never browses need not spend.
    """

    async def start(self, launch: LaunchOptions) -> Engine:
        """Start Chromium; raises Unavailable as `pages.chromium` does, or without Playwright."""
        if not has_extra("browser"):
            raise Unavailable(NO_PLAYWRIGHT)
        await asyncio.to_thread(_import_chromium)
        from choir_browser.pages import chromium  # noqa: PLC0415 - imported above, in a thread

        return await chromium.start_chromium(launch)


class EngineManager:
    """At most one engine at a time, started on demand."""

    def __init__(self, launcher: EngineLauncher, launch: LaunchOptions, clock: Clock) -> None:
        self._launcher = launcher
        self._launch = launch
        self._clock = clock
        self._engine: Engine | None = None
        self._changing = asyncio.Lock()
        self._used_at = clock.monotonic()
        self._failure: str | None = None

    @property
    def running(self) -> Engine | None:
        """The engine if it is alive, else None."""
        return self._engine if self._engine is not None and self._engine.alive else None

    async def get_engine(self) -> Engine:
        """Return a live engine, started if necessary; raises Unavailable if none can be started."""
        async with self._changing:
            if self._engine is not None and self._engine.alive:
                return self._engine
            if self._engine is not None:
                log.warning("browser crashed, restarting")
                await self._end()
            self._engine = await self._launcher.start(self._launch)
            return self._engine

    def mark_used(self) -> None:
        """Record that the engine is in use now."""
        self._used_at = self._clock.monotonic()

    def idle_time(self) -> timedelta:
        """Return how long the engine has not been used."""
        return timedelta(seconds=self._clock.monotonic() - self._used_at)

    async def stop(self) -> None:
        """Stop the engine, if there is one."""
        async with self._changing:
            await self._end()

    async def _end(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()


def _import_chromium() -> ModuleType:
    from choir_browser.pages import chromium  # noqa: PLC0415 - takes a third of a second

    return chromium
