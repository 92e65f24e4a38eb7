"""The tabs of one agent: their numbers, their limit, and each lane's current tab.

A tab is opened by an action, or by a click that opens one. A tab that a page
opens by itself is closed at once.
"""

import asyncio
import contextlib

from playwright.async_api import BrowserContext, Error, Page

from choir_browser.limits.kill_policy import KillReasons
from choir_browser.pages.error_translation import CRASHED
from choir_browser.pages.tab import Tab
from choir_common.errors import Conflict, InvalidRequest, NotFound, Unavailable
from choir_common.wire.browser import BrowseResponse, Tabs, TabView

OPEN_TIMEOUT_S = 15.0
NEW_TRIES = 2


class TabRegistry:
    """The tabs of a context."""

    def __init__(self, context: BrowserContext, max_tabs: int, kill_reasons: KillReasons) -> None:
        self._context = context
        self._max_tabs = max_tabs
        self._kill_reasons = kill_reasons
        self._tabs: dict[int, Tab] = {}
        self._current: dict[str, int] = {}
        self._last_urls: dict[str, str] = {}
        """Last URL of each lane whose tab was closed by itself, usually with the browser."""
        self._last_number = 0
        self._pressed: Tab | None = None
        self._popups: list[Page] = []

    def current(self, lane: str) -> Tab | None:
        """Return a lane's current tab, or None."""
        return self._tabs.get(self._current.get(lane, 0))

    def require_current(self, lane: str) -> Tab:
        """Return a lane's current tab; raises NotFound with instructions if there is none."""
        tab = self.current(lane)
        if tab is None:
            raise NotFound("No page is open: `open` one first.")
        return tab

    async def get_or_open(self, lane: str) -> Tab:
        """Return a lane's current tab, or a new one if there is none that works.

        Raises Conflict if too many tabs are open.
        """
        tab = self.current(lane)
        if tab is not None and not tab.crashed.is_set():
            return tab
        if tab is not None:
            await self.close_tab(tab)
        newer = await self.open_tab()
        self._current[lane] = newer.number
        if tab is not None:
            newer.add_note(f"The previous page: {await tab.crash_reason()}")
        return newer

    def lane_urls(self) -> dict[str, str]:
        """Return each lane's URL."""
        tabs = {lane: self.current(lane) for lane in self._current}
        urls = {lane: tab.url for lane, tab in tabs.items() if tab is not None and tab.url}
        return self._last_urls | urls

    async def open_tab(self, temporary: bool = False) -> Tab:
        """Open an empty tab; `spare` allows one above the limit, for a temporary tab.

        Raises Conflict if too many are open, Unavailable without a browser.
        """
        if len(self._tabs) >= self._max_tabs and not temporary:
            raise Conflict(
                f"{self._max_tabs} tabs are open, which is the limit: close one (`tabs`)."
            )
        # Opening a tab may hang if its process dies, and usually succeeds the second time.
        for _ in range(NEW_TRIES):
            try:
                async with asyncio.timeout(OPEN_TIMEOUT_S):
                    return await self._enter(await self._context.new_page())
            except TimeoutError:
                continue  # its process died, which Chromium does not report
            except Error as error:
                raise Unavailable(CRASHED) from error
        raise Unavailable(CRASHED)

    async def close_tab(self, tab: Tab) -> None:
        """Close a tab, whatever state it is in."""
        self._tabs.pop(tab.number, None)
        await tab.close()

    def allow_popups_from(self, tab: Tab | None) -> None:
        """Allow this tab to open others from now on; with None, no tab may."""
        self._pressed, self._popups = tab, []

    async def take_popup(self, lane: str) -> Tab | None:
        """Return the newest tab that a click has opened, and make it the lane's current one."""
        newest: Tab | None = None
        while self._popups:
            try:
                newest = await self._enter(self._popups.pop(0))
            except Error:
                continue  # it has closed itself
            self._current[lane] = newest.number
        return newest

    async def run_tabs_action(self, lane: str, action: Tabs) -> BrowseResponse:
        """List, open, close or switch tabs."""
        match action.do:
            case "new":
                self._current[lane] = (await self.open_tab()).number
            case "switch":
                self._current[lane] = self._numbered(lane, action).number
            case "close":
                await self.close_tab(self._numbered(lane, action))
            case "list":
                pass
        return await self._listed(lane)

    def _numbered(self, lane: str, action: Tabs) -> Tab:
        if action.tab is None:
            if action.do == "switch":
                raise InvalidRequest("Say which tab to switch to: `tab`.")
            return self.require_current(lane)
        if action.tab not in self._tabs:
            numbers = ", ".join(map(str, self._tabs)) or "none"
            raise NotFound(f"There is no tab {action.tab}; open tabs: {numbers}.")
        return self._tabs[action.tab]

    async def _listed(self, lane: str) -> BrowseResponse:
        current = self.current(lane)
        views = [
            TabView(tab=tab.number, url=tab.url, title=await _title(tab), current=tab is current)
            for tab in list(self._tabs.values())
        ]
        answer = current.make_answer() if current else _nothing()
        return answer.model_copy(update={"tabs": tuple(views)})

    async def _enter(self, page: Page) -> Tab:
        self._last_number += 1
        tab = Tab(
            self._last_number,
            page=page,
            cdp=await self._context.new_cdp_session(page),
            popup_handler=self,
            kill_reasons=self._kill_reasons,
        )
        self._tabs[tab.number] = tab

        # Called for every close, also by the page itself or when the browser crashes.
        def forget(_: Page) -> None:
            lanes = [lane for lane in self._current if self.current(lane) is tab]
            self._last_urls |= {lane: tab.url for lane in lanes if tab.url}
            self._tabs.pop(tab.number, None)

        page.on("close", forget)
        return tab

    async def handle_popup(self, tab: Tab, page: Page) -> None:
        """Keep a page that the current action opened, up to the limit of tabs; close any other."""
        if tab is self._pressed and len(self._tabs) + len(self._popups) < self._max_tabs:
            self._popups.append(page)
            tab.mark_effect()
            return
        tab.add_note("It tried to open another tab, which was closed.")
        with contextlib.suppress(Error):
            await page.close(run_before_unload=False)


def _nothing() -> BrowseResponse:
    return BrowseResponse(url="", status=0, title="", text="", truncated=False)


async def _title(tab: Tab) -> str:
    """Return a tab's title, or "" if its page is too busy to answer."""
    try:
        return await tab.title()
    except (Error, TimeoutError):
        return ""
