"""Polls that become rarer: each takes processor time from what is waited for."""

import asyncio
import time
from collections.abc import Awaitable, Callable

SHARE = 0.15
SHORTEST_S, LONGEST_S = 0.01, 0.25


class PollPauses:
    """Pauses between the polls of one wait: a share of the time waited so far."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    async def sleep(self) -> None:
        """Sleep until the next poll."""
        waited_s = time.monotonic() - self._began
        await asyncio.sleep(min(max(SHORTEST_S, SHARE * waited_s), LONGEST_S))


async def until(condition: Callable[[], Awaitable[bool]], within: float) -> None:
    """Wait until `condition` holds; raises TimeoutError with its name."""
    pauses = PollPauses()
    try:
        async with asyncio.timeout(within):
            while not await condition():
                await pauses.sleep()
    except TimeoutError as error:
        raise TimeoutError(f"{condition.__qualname__} did not hold in {within:g} s") from error
