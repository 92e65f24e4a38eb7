"""Chromium under Playwright: the engine, started on the first browse request.

Importing this module costs 16 MB, and starting it a Node process and Chromium. So only
contexts/engine_manager.py imports it, on first use.
"""

import asyncio
import json
from pathlib import Path
from typing import cast

import structlog
from playwright.async_api import Browser, Error, StorageState

from choir_browser.egress.proxy import ProxyCredentials
from choir_browser.pages.chromium_program import FLAGS, find_chromium
from choir_browser.pages.context import ChromiumContext
from choir_browser.pages.driver import Driver, start_driver
from choir_browser.pages.engine import LaunchOptions
from choir_browser.pages.error_translation import CRASHED, is_gone
from choir_browser.pages.tabs import TabRegistry
from choir_common.errors import ChoirError, Unavailable
from choir_common.i18n import _

log = structlog.get_logger("choir.browser.pages")

LAUNCH_TIMEOUT_S = 30.0
# Playwright disables two protections: against popups, and against pages that flood the browser
# process with requests. Without these flags only a click opens a tab, and a page can navigate its
# history at most 200 times in ten seconds.
REMOVED_DEFAULT_FLAGS = ("--disable-popup-blocking", "--disable-ipc-flooding-protection")
# Page scripts must have no access to non-HTTP networking.
_NO_PEERS = "delete window.RTCPeerConnection; delete window.webkitRTCPeerConnection;"
_NO_TRANSPORT = "delete window.WebTransport;"
# Nobody reads page errors here, and a flood of them would delay every agent's messages on the one
# connection to the driver.
_NO_ERRORS = (
    "for(const kind of ['error','unhandledrejection'])"
    "addEventListener(kind,e=>e.preventDefault(),true);"
)


class ChromiumEngine:
    """A running Chromium and its Playwright driver."""

    def __init__(self, driver: Driver, browser: Browser, launch: LaunchOptions) -> None:
        self._driver = driver
        self._browser = browser
        self._launch = launch

    @property
    def alive(self) -> bool:
        """Whether Chromium is still connected."""
        return self._browser.is_connected()

    async def new_context(
        self, credentials: ProxyCredentials, state: str | None
    ) -> ChromiumContext:
        """Open a browser context that uses the proxy with the credentials `credentials`.

        Raises Unavailable if Chromium is gone.
        """
        try:
            context = await self._browser.new_context(
                proxy={
                    "server": self._launch.proxy_url,
                    "username": credentials.username,
                    "password": credentials.password,
                },
                accept_downloads=False,
                service_workers="block",
                storage_state=cast(StorageState, json.loads(state)) if state else None,
            )
            await context.add_init_script(_NO_PEERS + _NO_TRANSPORT + _NO_ERRORS)
        except Error as error:
            raise Unavailable(CRASHED) from error
        book = TabRegistry(context, self._launch.max_tabs, self._launch.kill_reasons)
        return ChromiumContext(context, self._launch.blobs, book)

    async def close(self) -> None:
        """Stop Chromium and the driver."""
        await self._driver.stop(self._browser.close)


async def start_chromium(launch: LaunchOptions) -> ChromiumEngine:
    """Start the driver and Chromium.

    Raises Unavailable with the reason if there is no Chromium, or it does not start.
    """
    driver = await start_driver()
    chromium = driver.playwright.chromium
    try:
        program = find_chromium(launch.executable, Path(chromium.executable_path))
        browser = await chromium.launch(
            executable_path=program,
            headless=True,
            chromium_sandbox=launch.sandbox,
            args=list(FLAGS),
            ignore_default_args=list(REMOVED_DEFAULT_FLAGS),
            proxy={"server": launch.proxy_url},
            timeout=LAUNCH_TIMEOUT_S * 1000,
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )
    except (Error, ChoirError) as error:
        await driver.stop()
        raise _explain(error) from error
    except asyncio.CancelledError:
        await driver.stop()
        raise
    log.info("chromium started", program=str(program), version=browser.version)
    return ChromiumEngine(driver, browser, launch)


def _explain(error: Error | ChoirError) -> ChoirError:
    if isinstance(error, ChoirError):
        return error
    if "sandbox" in str(error).lower():
        return Unavailable(
            _(
                "Chromium cannot create its sandbox here: allow user namespaces, or set "
                "CHOIR_BROWSER_SANDBOX=off where the container itself is the sandbox."
            )
        )
    first = str(error).strip().splitlines()[0]
    return Unavailable(
        CRASHED if is_gone(error) else _("Chromium did not start: {first}").format(first=first)
    )
