"""Run a coroutine function periodically until cancelled, for the background tasks of choird.

Errors are logged and the next run tries again; only cancellation ends the loop.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from choir_common.errors import Unavailable

log = structlog.get_logger("choir.rounds")


async def run_periodically(
    interval_s: float,
    name: str,
    run: Callable[[], Awaitable[object]],
    wake_up: asyncio.Event | None = None,
) -> None:
    """Call `run` now, then again `interval_s` after each end, or as soon as `wake_up` is set."""
    wake_up = wake_up or asyncio.Event()
    while True:
        wake_up.clear()
        try:
            await run()
        except Unavailable as error:
            log.info("dependency unavailable, retrying", what=name, error=error.message)
        except Exception:  # outermost loop: the next run may succeed
            log.exception("failed", what=name)
        try:
            async with asyncio.timeout(interval_s):
                await wake_up.wait()
        except TimeoutError:
            continue
