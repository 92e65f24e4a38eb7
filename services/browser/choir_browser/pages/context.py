"""One agent's browser context: run an action in a tab, and close tabs that hang or crash.

The actions are in tab.py, page_actions.py and downloads.py; tabs.py selects the tab.
"""

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import TypeVar, assert_never

from playwright.async_api import BrowserContext, Error

from choir_browser.blobs.store import BlobStore
from choir_browser.pages import page_actions
from choir_browser.pages.downloads import DownloadedFile, DownloadInterceptor
from choir_browser.pages.error_translation import (
    NavigationInterrupted,
    is_download,
    is_gone,
    translate_error,
)
from choir_browser.pages.renderer_processes import renderer_pids
from choir_browser.pages.script import ScriptResult
from choir_browser.pages.tab import Tab
from choir_browser.pages.tabs import TabRegistry
from choir_common.errors import (
    ChoirError,
    Conflict,
    DeadlineExceeded,
    InvalidRequest,
    NotFound,
    TooLarge,
    Unavailable,
)
from choir_common.wire.browser import (
    Action,
    Back,
    BrowseResponse,
    Click,
    Download,
    OpenPage,
    ReadPage,
    Screenshot,
    Scroll,
    SelectOption,
    Tabs,
    TypeText,
)

T = TypeVar("T")

CLOSE_TIMEOUT_S = 5.0
PROBE_S = 2.0
# After these errors the tab is unharmed.
_HARMLESS = (InvalidRequest, NotFound, Conflict, TooLarge)


class ChromiumContext:
    """A context whose tabs stay open until they are closed or the browser is stopped."""

    def __init__(self, context: BrowserContext, blobs: BlobStore, tabs: TabRegistry) -> None:
        self._context = context
        self._blobs = blobs
        self._tabs = tabs
        self._turn = asyncio.Lock()
        self.alive = True

    async def run_action(self, lane: str, action: Action, timeout_s: float) -> BrowseResponse:
        """Run one action; see `EngineContext.run_action`."""
        async with self._turn:
            match action:
                case Tabs():
                    return await self._tabs.run_tabs_action(lane, action)
                case Download(url=str() as url, ref=None):
                    return await self._fetch(lane, url, timeout_s)
                case OpenPage():
                    tab = await self._tabs.get_or_open(lane)
                case _:
                    tab = self._tabs.require_current(lane)
            try:
                return await self._run_in_tab(lane, tab, action, timeout_s)
            except NavigationInterrupted:
                if not isinstance(action, OpenPage):
                    raise
                tab = await self._tabs.get_or_open(lane)  # the other is closed now
            return await self._run_in_tab(lane, tab, action, timeout_s)

    def lane_urls(self) -> dict[str, str]:
        """Return each lane's URL."""
        return self._tabs.lane_urls()

    async def renderer_pids(self) -> frozenset[int]:
        """Return the ids of the processes that show this context's pages."""
        return await renderer_pids(self._context)

    async def saved_state(self) -> str:
        """Return cookies and local storage as JSON text."""
        return json.dumps(await self._context.storage_state())

    async def close(self) -> None:
        """Destroy the context; no error if the browser is already gone."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._context.close()

    async def _run_in_tab(
        self, lane: str, tab: Tab, action: Action, timeout_s: float
    ) -> BrowseResponse:
        subject = action.url if isinstance(action, OpenPage) else f"The page ({action.action})"
        sound = False
        self._tabs.allow_popups_from(tab)
        try:
            async with asyncio.timeout(timeout_s):
                response = await run_unless_crashed(tab, self._do(lane, tab, action, timeout_s))
            sound = True
            return response
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{subject} timed out after {timeout_s:g} s; its tab was closed."
            ) from error
        except Error as error:
            # A failed load shows an error page a moment later, which would interrupt the next
            # navigation, so the tab is closed. A download leaves its tab unchanged.
            if is_gone(error) or await tab.has_crashed():
                raise Unavailable(await tab.crash_reason()) from error
            sound = is_download(error)
            raise translate_error(error, subject) from error
        except ChoirError as error:
            sound = isinstance(error, _HARMLESS)
            raise
        finally:
            self._tabs.allow_popups_from(None)
            if not sound:
                await page_actions.crash_page(tab)
                await self._tabs.close_tab(tab)
                await self._probe()

    async def _do(self, lane: str, tab: Tab, action: Action, timeout_s: float) -> BrowseResponse:
        match action:
            case OpenPage():
                await tab.open(action.url, timeout_s)
            case ReadPage():
                return await tab.read(action.start, action.whole)
            case Click():
                await page_actions.click(tab, action)
            case TypeText():
                await page_actions.type_text(tab, action)
                if not action.submit:
                    return tab.make_answer()
            case SelectOption():
                await page_actions.select_options(tab, action)
                return tab.make_answer()
            case Scroll():
                await page_actions.scroll(tab, action)
                return await tab.read(visible_only=True)
            case Back():
                await tab.back(timeout_s)
            case Screenshot():
                return await page_actions.take_screenshot(tab, action, self._blobs, timeout_s)
            case Download():
                return await self._fetch_numbered(lane, tab, action, timeout_s)
            case Tabs():
                return await self._tabs.run_tabs_action(lane, action)
            case _:
                assert_never(action)
        return await self._look(lane, tab)

    async def _look(self, lane: str, tab: Tab) -> BrowseResponse:
        """Read a tab, or the tab that a click in it has opened."""
        newer = await self._tabs.take_popup(lane)
        if newer is not None:
            with newer.track_requests():
                await newer.wait_for_effect()
            newer.add_note(f"This opened a new tab, {newer.number}, which is now the current tab.")
            for note in tab.take_notes():
                newer.add_note(note)
            tab = newer
        return await tab.read() if tab.url else tab.make_answer()

    async def _fetch_numbered(
        self, lane: str, tab: Tab, action: Download, timeout_s: float
    ) -> BrowseResponse:
        if action.ref is None or action.url is not None:
            raise InvalidRequest("A download needs either `url` or `ref`.")
        ref = action.ref
        link = await tab.script.call(ScriptResult, "link", ref)
        if link.value.startswith(("http://", "https://")):
            return await self._fetch(lane, link.value, timeout_s)
        if link.value:
            raise InvalidRequest(f"{ref} links to {link.value[:40]!r}, which cannot be downloaded.")
        async with DownloadInterceptor(tab.cdp) as interceptor:
            return _answer_with(
                tab,
                await interceptor.fetch(lambda: page_actions.click_element(tab, ref), self._blobs),
            )

    async def _fetch(self, lane: str, url: str, timeout_s: float) -> BrowseResponse:
        """Download a URL in a temporary tab, with the lane's page as referrer."""
        current = self._tabs.current(lane)
        tab = await self._tabs.open_tab(temporary=True)
        navigation = {"url": url, "referrer": current.url if current else ""}
        try:
            async with asyncio.timeout(timeout_s), DownloadInterceptor(tab.cdp) as interceptor:
                file = await run_unless_crashed(
                    tab,
                    interceptor.fetch(
                        lambda: tab.cdp.send("Page.navigate", navigation), self._blobs
                    ),
                )
            return _answer_with(current or tab, file)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{url} did not arrive within {timeout_s:g} s.") from error
        except Error as error:
            raise translate_error(error, url) from error
        finally:
            await self._tabs.close_tab(tab)

    async def _probe(self) -> None:
        """Check whether the context still works or is lost with the tab."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self._context.cookies("http://choir.invalid/")
        except (Error, TimeoutError):
            self.alive = False


async def run_unless_crashed(tab: Tab, action: Coroutine[None, None, T]) -> T:
    """Run a coroutine for a tab; raises Unavailable if the tab crashes meanwhile or has crashed before."""
    work, crash = asyncio.create_task(action), asyncio.create_task(tab.crashed.wait())
    try:
        await asyncio.wait({work, crash}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Unavailable(await tab.crash_reason())
    finally:
        for task in (work, crash):
            task.cancel()
        await asyncio.gather(work, crash, return_exceptions=True)


def _answer_with(tab: Tab, file: DownloadedFile) -> BrowseResponse:
    return tab.make_answer().model_copy(
        update={
            "blob": file.blob,
            "url": file.url,
            "origin": file.origin,
            "status": file.status,
        }
    )
