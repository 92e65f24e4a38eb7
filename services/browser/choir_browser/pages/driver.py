"""Start and stop Playwright's driver, a Node process that controls Chromium, whatever state it is in.

Used by chromium.py. A driver that does not stop in time is killed with all its descendants: a
service that runs for months must not accumulate hanging browsers.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable

import structlog
from playwright.async_api import Error, Playwright, async_playwright

from choir_browser.limits.processes import children_with_argument, kill_tree, process_exists
from choir_common.errors import Unavailable
from choir_common.i18n import _

log = structlog.get_logger("choir.browser.pages")

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 5.0
REAPED_POLL_S = 0.05
_SIGN = b"run-driver"


class Driver:
    """A running driver."""

    def __init__(self, playwright: Playwright, pids: frozenset[int]) -> None:
        self.playwright = playwright
        self._pids = pids

    async def stop(self, close: Callable[[], Awaitable[None]] | None = None) -> None:
        """Stop Chromium by `close`, then the driver, then kill what is left of them."""
        if close is not None:
            await _in_time(close)
        await _in_time(self.playwright.stop)
        if await asyncio.to_thread(_kill, self._pids):
            # returns at once: only updates Playwright's own state
            await _in_time(self.playwright.stop)
            await _in_time(self._wait_until_reaped)

    async def _wait_until_reaped(self) -> None:
        """Wait until asyncio has noticed the end, or it would keep the process and its pipes open."""
        while any(map(process_exists, self._pids)):  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(REAPED_POLL_S)
        await asyncio.sleep(REAPED_POLL_S)


async def start_driver() -> Driver:
    """Start a driver; raises Unavailable if it does not start in time."""
    before = _drivers()
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            playwright = await async_playwright().start()
    except TimeoutError as error:
        _kill(_drivers() - before)
        raise Unavailable(
            _("The browser's driver did not start within {start_timeout_s:g} s.").format(
                start_timeout_s=START_TIMEOUT_S
            )
        ) from error
    except asyncio.CancelledError:
        _kill(_drivers() - before)
        raise
    return Driver(playwright, _drivers() - before)


async def _in_time(ending: Callable[[], Awaitable[None]]) -> None:
    with contextlib.suppress(Error, OSError):
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await ending()


def _drivers() -> frozenset[int]:
    return frozenset(children_with_argument(os.getpid(), _SIGN))


def _kill(pids: frozenset[int]) -> bool:
    """Kill the processes that still run, with their descendants; return whether there were any."""
    running = pids & _drivers()
    for pid in running:
        log.warning("browser driver did not stop, killing it", pid=pid)
        kill_tree(pid)
    return bool(running)
