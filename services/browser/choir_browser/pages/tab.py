"""One tab: its page, its pending notes, and its content as Markdown.

page_actions.py clicks, types and takes screenshots in it, downloads.py takes files out of it.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Literal, Protocol

from playwright.async_api import CDPSession, Dialog, Error, Frame, Page, Request, Response
from playwright.async_api import Download as OfferedFile
from playwright.async_api import TimeoutError as PlaywrightTimeout

from choir_browser.egress.proxy import GUARD_HEADER
from choir_browser.limits.kill_policy import KillReasons
from choir_browser.pages.error_translation import CRASHED, NavigationInterrupted, net_error_text
from choir_browser.pages.filenames import url_origin
from choir_browser.pages.script import PageContent, PageScript
from choir_common.errors import Forbidden, InvalidRequest, NotFound, Unavailable
from choir_common.wire.browser import BrowseResponse

# After the first content, time for a page to finish loading what a reader would wait for.
SETTLE_TIMEOUT_S = 2.0
# After a click, time for a page to start a navigation.
EFFECT_TIMEOUT_S = 0.4
# The same for a new tab, which is a process to start.
NEW_TAB_TIMEOUT_S = 5.0
# Below this, the page is probably still rendered by script.
SPARSE_CHARS = 40
# Enough for an article; more would take too much of the model's context window.
MAX_TEXT_CHARS = 20_000
# A shorter page has no menus worth leaving out.
SHORT_CHARS = 2_000
# A smaller share of the visible text means that the content itself was classified as menus.
MIN_CONTENT_SHARE = 0.1
MAX_TITLE_CHARS = 200
TITLE_S = 1.0
MAX_NOTES = 6
MAX_NOTE_CHARS = 300

# From the end of a page's process until Playwright reports the crash.
CRASH_REPORT_TIMEOUT_S = 1.0
# The same after a kill by Choir, which a busy machine reports late.
KILL_REPORT_TIMEOUT_S = 5.0
# Dialogs without a delay in one action; further ones are answered with a pause.
MAX_QUICK_DIALOGS = 3
DIALOG_PAUSE_S = 0.3


class PopupHandler(Protocol):
    """Handler of the pages that a tab opens."""

    async def handle_popup(self, tab: "Tab", page: Page) -> None:
        """Keep or close the new page."""
        ...


class Tab:
    """A page of an agent's context, with a debugging session (CDP) that reads it."""

    def __init__(
        self,
        number: int,
        *,
        page: Page,
        cdp: CDPSession,
        popup_handler: PopupHandler,
        kill_reasons: KillReasons,
    ) -> None:
        self.number = number
        self.page = page
        self.cdp = cdp
        self.script = PageScript(cdp)
        self.crashed = asyncio.Event()
        """Set when its process is gone: requests to it are never answered then."""
        self._kill_reasons = kill_reasons
        self._crash_reason = CRASHED
        self._dialogs = 0
        self._notes: list[str] = []
        self._loading, self._listens = False, False
        self._effect_started, self._arrived = asyncio.Event(), asyncio.Event()
        self._answer: Response | None = None
        self._failure = ""
        page.on("framenavigated", self._on_navigated)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("crash", self._on_crash)

        async def opened(other: Page) -> None:
            await popup_handler.handle_popup(self, other)

        page.on("popup", opened)

    @property
    def url(self) -> str:
        """The page's URL; empty unless it is an http or https page."""
        where = self.page.url
        return where if where.startswith(("http://", "https://")) else ""

    def add_note(self, text: str) -> None:
        """Store a note for the next answer; their number and length are limited."""
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text[:MAX_NOTE_CHARS])

    def take_notes(self) -> tuple[str, ...]:
        """Return the pending notes and clear them."""
        notes, self._notes = tuple(self._notes), []
        return notes

    async def has_crashed(self) -> bool:
        """Return whether its process is gone; wait for the report of the crash if a page was just killed.

        Chromium aborts a page load before it reports that the page's process was killed.
        """
        if self._kill_reasons.has_recent:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(KILL_REPORT_TIMEOUT_S):
                    await self.crashed.wait()
        return self.crashed.is_set()

    async def crash_reason(self) -> str:
        """Return the reason why the page is gone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CRASH_REPORT_TIMEOUT_S):
                await self.crashed.wait()
        return self._crash_reason

    def mark_effect(self) -> None:
        """Record that the action has started to have an effect."""
        self._effect_started.set()

    async def title(self) -> str:
        """Return the page's title; raises TimeoutError if the page is too busy to answer."""
        async with asyncio.timeout(TITLE_S):
            return (await self.page.title())[:MAX_TITLE_CHARS]

    @contextlib.contextmanager
    def track_requests(self) -> Iterator[None]:
        """Track the tab's requests during the block: they are the effect of the action in it.

        At no other time: a page can make 100,000 requests, and the events of all agents' pages
        share one connection to the driver.
        """
        self._effect_started.clear()
        self._loading, self._failure, self._dialogs = False, "", 0
        self.page.on("request", self._on_request)
        self.page.on("response", self._on_response)
        self.page.on("requestfinished", self._on_finished)
        self.page.on("requestfailed", self._on_failed)
        self._listens = True
        try:
            yield
        finally:
            self._listen_no_more()

    async def open(self, url: str, timeout_s: float) -> None:
        """Load a page; raises as `EngineContext.run_action` does, and Playwright's errors."""
        self._answer, self._dialogs = None, 0
        response = await self.page.goto(
            url, wait_until="domcontentloaded", timeout=timeout_s * 1000
        )
        if response is None and not self.url:
            raise InvalidRequest(f"{url} returned no page.")
        if response is None and "#" not in url:
            # Only a jump within a page has no response: Chromium dropped this load for one of the
            # page before.
            raise NavigationInterrupted(f"The page before {url} kept navigating.")
        self._answer = response
        await self._judge(url)
        await self._settle("load")

    async def back(self, timeout_s: float) -> None:
        """Go to the previous page; raises NotFound if there is none."""
        history = await self.cdp.send("Page.getNavigationHistory")
        at = int(history["currentIndex"])
        before = history["entries"][at - 1] if at > 0 else None
        if before is None or not str(before["url"]).startswith(("http://", "https://")):
            raise NotFound("This tab has no previous page.")
        self._answer = await self.page.go_back(
            wait_until="domcontentloaded", timeout=timeout_s * 1000
        )
        await self._settle("load")

    async def wait_for_effect(self, start_timeout_s: float = EFFECT_TIMEOUT_S) -> None:
        """Wait for the effect of a click: another page, or a change of this one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(start_timeout_s):
                await self._effect_started.wait()
        while self._loading:
            self._arrived.clear()
            await self._arrived.wait()
        self._listen_no_more()
        await self._settle("load")
        await self._judge(self.page.url)

    async def read(
        self, start: int = 0, full_page: bool = False, visible_only: bool = False
    ) -> BrowseResponse:
        """Read the page as Markdown; with `visible_only`, only the visible area.

        Raises NotFound if there is no page.
        """
        if not self.url:
            raise NotFound("No page is open in this tab: `open` one.")
        reading = await self._read(full_page, visible_only)
        if len(reading.text) < SPARSE_CHARS and reading.scripted and not visible_only:
            await self._settle("networkidle")
            reading = await self._read(full_page, visible_only)
        if not self.url:
            raise NavigationInterrupted("The page went on to one that could not be loaded.")
        if reading.left_out:
            self.add_note(
                "Navigation, headers and footers are omitted; `read` with `whole` shows them."
            )
        if visible_only:
            self.add_note(
                f"Visible: from {reading.y:.0f} to {reading.y + reading.view:.0f} of "
                f"{reading.height:.0f} pixels."
            )
        end = start + MAX_TEXT_CHARS
        longer = len(reading.text) > end
        return self.make_answer(
            title=reading.title,
            text=reading.text[start:end],
            truncated=longer,
            next_start=end if longer else None,
        )

    def make_answer(
        self,
        title: str = "",
        text: str = "",
        truncated: bool = False,
        next_start: int | None = None,
    ) -> BrowseResponse:
        """Return an answer with the tab's URL, status and pending notes."""
        return BrowseResponse(
            url=self.url,
            origin=url_origin(self.url),
            status=self._answer.status if self._answer is not None else 0,
            title=title,
            text=text,
            truncated=truncated,
            next_start=next_start,
            notes=self.take_notes(),
            tab=self.number,
        )

    async def close(self) -> None:
        """Close the tab, whatever state it is in."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(3):
                await self.page.close(run_before_unload=False)

    def _listen_no_more(self) -> None:
        if self._listens:
            self._listens = False
            self.page.remove_listener("request", self._on_request)
            self.page.remove_listener("response", self._on_response)
            self.page.remove_listener("requestfinished", self._on_finished)
            self.page.remove_listener("requestfailed", self._on_failed)

    async def _read(self, full_page: bool, visible_only: bool) -> PageContent:
        options = {
            "whole": full_page,
            "seen": visible_only,
            "short": SHORT_CHARS,
            "share": MIN_CONTENT_SHARE,
        }
        return await self.script.call(PageContent, "read", options)

    async def _settle(self, state: Literal["load", "networkidle"]) -> None:
        with contextlib.suppress(PlaywrightTimeout):
            await self.page.wait_for_load_state(state, timeout=SETTLE_TIMEOUT_S * 1000)

    async def _judge(self, subject: str) -> None:
        """Raise the proxy's refusal, or the reason why no page was loaded.

        A page may forge the header, but gains nothing: it is then not read.
        """
        code = self._answer.headers.get(GUARD_HEADER) if self._answer is not None else None
        if self._answer is not None and code is not None:
            text = await self._answer.text()
            raise Forbidden(text) if code == Forbidden.code else Unavailable(text)
        if self.page.url.startswith("chrome-error:"):
            raise InvalidRequest(f"{subject} could not be loaded: {net_error_text(self._failure)}.")

    def _is_ours(self, request: Request) -> bool:
        try:
            return request.is_navigation_request() and request.frame == self.page.main_frame
        except Error:  # its frame does not exist yet or any more
            return False

    def _on_request(self, request: Request) -> None:
        if self._is_ours(request):
            self._loading = True
            self._effect_started.set()

    def _on_response(self, response: Response) -> None:
        if self._is_ours(response.request):
            self._answer = response

    def _on_finished(self, request: Request) -> None:
        if self._is_ours(request):
            self._arrive()

    def _on_failed(self, request: Request) -> None:
        if self._is_ours(request):
            self._failure = (request.failure or "").removeprefix("net::")
            self._arrive()

    def _on_navigated(self, frame: Frame) -> None:
        if frame == self.page.main_frame:
            self._arrive()

    def _on_crash(self, _: Page) -> None:
        # Read the reason now: when the agent calls again, it could be another page's.
        self._crash_reason = self._kill_reasons.pop_recent() or CRASHED
        self.crashed.set()

    def _on_download(self, download: OfferedFile) -> None:
        self.add_note(
            f"It offered a file, {download.suggested_filename[:100]!r}: fetch it by `download`."
        )
        self._effect_started.set()
        self._arrive()

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.add_note(f"The page's {dialog.type} was closed; its text: {dialog.message[:200]!r}")
        self._dialogs += 1
        if self._dialogs > MAX_QUICK_DIALOGS:
            # A loop of dialogs keeps Chromium itself busy, which serves the pages of all agents.
            await asyncio.sleep(DIALOG_PAUSE_S)
        with contextlib.suppress(Error):
            # `beforeunload` must be accepted, or the page could never be left.
            await (dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())

    def _arrive(self) -> None:
        self._loading = False
        self._arrived.set()
