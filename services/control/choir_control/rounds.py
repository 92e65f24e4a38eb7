"""Run a coroutine function periodically until cancelled. Used for the background tasks in `app`.

Errors are logged and the next run tries again; only cancellation ends the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from choir_common.errors import Unavailable

log = structlog.get_logger("choir.rounds")


async def every(
    interval_s: float,
    what: str,
    work: Callable[[], Awaitable[object]],
    awake: asyncio.Event | None = None,
) -> None:
    """Run `work` now, then again `interval_s` after each end, or as soon as `awake` is set."""
    awake = awake or asyncio.Event()
    while True:
        awake.clear()
        try:
            await work()
        except Unavailable as error:
            log.info("waits for what is away", what=what, error=error.message)
        except Exception:  # outermost loop: the next run may succeed
            log.exception("failed", what=what)
        try:
            async with asyncio.timeout(interval_s):
                await awake.wait()
        except TimeoutError:
            continue
