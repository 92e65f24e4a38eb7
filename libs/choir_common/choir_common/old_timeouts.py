"""Correction of `asyncio.timeout` before Python 3.11.4, such as on Debian 12.

There a timeout in the clean-up of a cancelled task raises the cancellation again instead of TimeoutError, and
the rest of the clean-up is left out (https://github.com/python/cpython/issues/102780).
"""

import asyncio
from types import TracebackType

_enter, _exit = asyncio.Timeout.__aenter__, asyncio.Timeout.__aexit__
_outer = "_outer_cancellations"


async def _enter_counting(timeout: asyncio.Timeout) -> asyncio.Timeout:
    task = asyncio.current_task()
    setattr(timeout, _outer, task.cancelling() if task else 0)
    return await _enter(timeout)


async def _exit_counting(
    timeout: asyncio.Timeout,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
) -> None:
    await _exit(timeout, kind, error, traceback)
    task = asyncio.current_task()
    if task is None or not timeout.expired() or kind is not asyncio.CancelledError:
        return
    if task.cancelling() <= getattr(timeout, _outer):
        raise TimeoutError from error


def correct_timeouts() -> None:
    """Count the cancellations that were there before a timeout began, as newer versions do."""
    asyncio.Timeout.__aenter__ = _enter_counting  # type: ignore[method-assign,assignment]
    asyncio.Timeout.__aexit__ = _exit_counting  # type: ignore[method-assign,assignment]
