"""Do a piece of work again and again, for ever: the outermost loop of what nobody asks for. Used by `app`.

What fails is logged and tried again at the next round; only being cancelled ends it.
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
    """Do `work` now, and again `interval_s` after each end of it, or as soon as `awake` is set."""
    awake = awake or asyncio.Event()
    while True:
        awake.clear()
        try:
            await work()
        except Unavailable as error:
            log.info("waits for what is away", what=what, error=error.message)
        except Exception:  # the outermost loop: the next round may fare better
            log.exception("failed", what=what)
        try:
            async with asyncio.timeout(interval_s):
                await awake.wait()
        except TimeoutError:
            continue
