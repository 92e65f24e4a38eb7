"""Chromium under Playwright: the engine that contexts/keeper.py starts on the first browse.

Importing this module costs 16 MB and starting it a node process and Chromium, so only
contexts/engine.py imports it, when it is first needed.
"""

import asyncio
import contextlib
import json
from pathlib import Path
from typing import cast

import structlog
from playwright.async_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    Playwright,
    StorageState,
    async_playwright,
)

from choir_browser.guard.proxy import Pass
from choir_browser.pages.faults import CRASHED, is_gone
from choir_browser.pages.locate import FLAGS, find_chromium
from choir_browser.pages.port import Launch, RawPage
from choir_browser.pages.tab import Tab
from choir_common.errors import ChoirError, Unavailable

log = structlog.get_logger("choir.browser.pages")

LAUNCH_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 5.0
# Tabs of one agent at the same time; more wait their turn.
TABS_PER_ROOM = 3
# Scripts of a page must not find a way to the network that is no HTTP.
_NO_PEERS = "delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;"
_NO_TRANSPORT = "delete window.WebTransport;"


class ChromiumRoom:
    """One agent's context: an idle tab is kept for the next load, since making one takes 200 ms."""

    def __init__(self, context: BrowserContext) -> None:
        self._context = context
        self._ours: set[Page] = set()
        self._spare: Tab | None = None
        self._turns = asyncio.Semaphore(TABS_PER_ROOM)

    async def load(self, url: str, timeout_s: float) -> RawPage:
        """Load a page in a tab of this room; see `Room.load`."""
        async with self._turns:
            tab, self._spare = self._spare, None
            kept = False
            try:
                tab = tab or await self._new_tab()
                page = await tab.load(url, timeout_s)
                await tab.clear()
                kept = self._spare is None
            finally:
                if kept:
                    self._spare = tab
                elif tab is not None:
                    await tab.close()
            return page

    async def saved_state(self) -> str:
        """Give cookies and local storage as JSON text."""
        return json.dumps(await self._context.storage_state())

    async def close(self) -> None:
        """Destroy the context; a browser that is already gone has done so itself."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._context.close()

    async def _new_tab(self) -> Tab:
        try:
            page = await self._context.new_page()
            line = await self._context.new_cdp_session(page)
        except Error as error:
            raise Unavailable(CRASHED) from error
        return Tab(page, line)


class ChromiumEngine:
    """A running Chromium and the Playwright driver that holds it."""

    def __init__(self, playwright: Playwright, browser: Browser, proxy_url: str) -> None:
        self._playwright = playwright
        self._browser = browser
        self._proxy_url = proxy_url

    @property
    def alive(self) -> bool:
        """Whether Chromium is still connected."""
        return self._browser.is_connected()

    async def new_room(self, entry: Pass, state: str | None) -> ChromiumRoom:
        """Open a context that goes through the proxy under `entry`.

        Raises Unavailable when Chromium is gone.
        """
        try:
            context = await self._browser.new_context(
                proxy={
                    "server": self._proxy_url,
                    "username": entry.username,
                    "password": entry.password,
                },
                accept_downloads=False,
                service_workers="block",
                storage_state=cast(StorageState, json.loads(state)) if state else None,
            )
            await context.add_init_script(_NO_PEERS + _NO_TRANSPORT)
        except Error as error:
            raise Unavailable(CRASHED) from error
        return ChromiumRoom(context)

    async def close(self) -> None:
        """End Chromium and the driver."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._browser.close()
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._playwright.stop()


async def start_chromium(launch: Launch) -> ChromiumEngine:
    """Start the driver and Chromium.

    Raises Unavailable when there is no Chromium, or it does not start; the message says why.
    """
    playwright = await async_playwright().start()
    try:
        program = find_chromium(launch.executable, Path(playwright.chromium.executable_path))
        browser = await playwright.chromium.launch(
            executable_path=program,
            headless=True,
            chromium_sandbox=launch.sandbox,
            args=list(FLAGS),
            proxy={"server": launch.proxy_url},
            timeout=LAUNCH_TIMEOUT_S * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except (Error, ChoirError) as error:
        await playwright.stop()
        raise _explain(error) from error
    log.info("chromium started", program=str(program), version=browser.version)
    return ChromiumEngine(playwright, browser, launch.proxy_url)


def _explain(error: Error | ChoirError) -> ChoirError:
    if isinstance(error, ChoirError):
        return error
    if "sandbox" in str(error).lower():
        return Unavailable(
            "Chromium cannot make its sandbox here: allow user namespaces, or set "
            "CHOIR_BROWSER_SANDBOX=off where the container itself is the sandbox."
        )
    first = str(error).strip().splitlines()[0]
    return Unavailable(CRASHED if is_gone(error) else f"Chromium did not start: {first}")
