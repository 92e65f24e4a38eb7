"""One tab: what is loaded in it, what it went through, and what it looks like now.

Made and kept by room.py; hands.py presses and types in it, pictures.py and fetching.py take files out of it.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import Literal

from playwright.async_api import CDPSession, Dialog, Error, Frame, Page, Request, Response
from playwright.async_api import Download as OfferedFile
from playwright.async_api import TimeoutError as PlaywrightTimeout

from choir_browser.guard.proxy import GUARD_HEADER
from choir_browser.limits.endings import Endings
from choir_browser.pages.faults import CRASHED, reason_of
from choir_browser.pages.filenames import origin_of
from choir_browser.pages.script import PageScript, Reading
from choir_common.errors import BadInput, Forbidden, NotFound, Unavailable
from choir_common.wire.browsing import BrowsedPage

# Past the first content, a page gets this long to finish what a reader would wait for.
SETTLE_S = 2.0
# After a press, a page gets this long to begin to go elsewhere.
BEGIN_S = 0.4
# Under this, a page is likely still drawing itself by script.
SPARSE_CHARS = 40
# Enough for an article; more would push the conversation out of the model's window.
MAX_TEXT_CHARS = 20_000
# A page this short has no clutter worth leaving out.
SHORT_CHARS = 2_000
# Less than this share of what is seen means that the text itself was taken for clutter.
LEAST_SHARE = 0.1
MAX_TITLE_CHARS = 200
TITLE_S = 1.0
MAX_NOTES = 6
MAX_NOTE_CHARS = 300

# From the end of a page's process to the word that it crashed.
GONE_S = 1.0
# What a page asks in one action; it waits between further ones.
DIALOGS_AT_ONCE = 3
DIALOG_PAUSE_S = 0.3

Popup = Callable[["Tab", Page], Awaitable[None]]


class Tab:
    """A page of an agent's context, with the debugging line that reads it."""

    def __init__(
        self, number: int, page: Page, line: CDPSession, popup: Popup, endings: Endings
    ) -> None:
        self.number = number
        self.page = page
        self.line = line
        self.script = PageScript(line)
        self.crashed = asyncio.Event()
        """Set when its process is gone: nothing asked of it is ever answered then."""
        self._endings = endings
        self._ended = CRASHED
        self._dialogs = 0
        self._notes: list[str] = []
        self._loading, self._listens = False, False
        self._begun, self._arrived = asyncio.Event(), asyncio.Event()
        self._answer: Response | None = None
        self._failure = ""
        page.on("framenavigated", self._on_navigated)
        page.on("dialog", self._on_dialog)
        page.on("download", self._on_download)
        page.on("crash", self._on_crash)

        async def opened(other: Page) -> None:
            await popup(self, other)

        page.on("popup", opened)

    @property
    def url(self) -> str:
        """Where it is; empty when it shows no page of the web."""
        where = self.page.url
        return where if where.startswith(("http://", "https://")) else ""

    def note(self, text: str) -> None:
        """Remember something to tell with the next answer; a storm of it is cut."""
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text[:MAX_NOTE_CHARS])

    def take_notes(self) -> tuple[str, ...]:
        """Give what there is to tell, and forget it."""
        taken, self._notes = tuple(self._notes), []
        return taken

    async def why_gone(self) -> str:
        """Say what became of a page that is no more."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GONE_S):
                await self.crashed.wait()
        return self._ended

    def hear(self) -> None:
        """Note that what was done has begun to have an effect."""
        self._begun.set()

    async def title(self) -> str:
        """Give the page's title. Raises TimeoutError when the page is too busy to say."""
        async with asyncio.timeout(TITLE_S):
            return (await self.page.title())[:MAX_TITLE_CHARS]

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Hear of the tab's requests for the block: they are the consequence of what is done in it.

        At no other time: a page can make a hundred thousand, and every agent's answers come down the
        same line behind what is told of them.
        """
        self._begun.clear()
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
        """Load a page. Raises as `Room.act` does, and Playwright's errors."""
        self._answer, self._dialogs = None, 0
        response = await self.page.goto(
            url, wait_until="domcontentloaded", timeout=timeout_s * 1000
        )
        if response is None and not self.url:
            raise BadInput(f"{url} gave no page.")
        self._answer = response
        await self._judge(url)
        await self._settle("load")

    async def back(self, timeout_s: float) -> None:
        """Go to the page before. Raises NotFound when there is none."""
        history = await self.line.send("Page.getNavigationHistory")
        at = int(history["currentIndex"])
        before = history["entries"][at - 1] if at > 0 else None
        if before is None or not str(before["url"]).startswith(("http://", "https://")):
            raise NotFound("There is no page before this one in its tab.")
        self._answer = await self.page.go_back(
            wait_until="domcontentloaded", timeout=timeout_s * 1000
        )
        await self._settle("load")

    async def follow(self) -> None:
        """Wait for what a press began: another page, or a change of this one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_S):
                await self._begun.wait()
        while self._loading:
            self._arrived.clear()
            await self._arrived.wait()
        self._listen_no_more()
        await self._settle("load")
        await self._judge(self.page.url)

    async def look(self, start: int = 0, whole: bool = False, seen: bool = False) -> BrowsedPage:
        """Read the page as markdown; `seen` reads only what is on the screen.

        Raises NotFound when there is no page.
        """
        if not self.url:
            raise NotFound("No page is open in this tab: `open` one.")
        reading = await self._read(whole, seen)
        if len(reading.text) < SPARSE_CHARS and reading.scripted and not seen:
            await self._settle("networkidle")
            reading = await self._read(whole, seen)
        if reading.left_out:
            self.note("Navigation, headers and footers are left out; `read` with `whole` has them.")
        if seen:
            self.note(
                f"Seen is what lies from {reading.y:.0f} to {reading.y + reading.view:.0f} of "
                f"{reading.height:.0f} pixels."
            )
        end = start + MAX_TEXT_CHARS
        longer = len(reading.text) > end
        return self.answer(
            title=reading.title,
            text=reading.text[start:end],
            truncated=longer,
            next_start=end if longer else None,
        )

    def answer(
        self,
        title: str = "",
        text: str = "",
        truncated: bool = False,
        next_start: int | None = None,
    ) -> BrowsedPage:
        """Give an answer with where the tab is and what there is to tell."""
        return BrowsedPage(
            url=self.url,
            origin=origin_of(self.url),
            status=self._answer.status if self._answer is not None else 0,
            title=title,
            text=text,
            truncated=truncated,
            next_start=next_start,
            notes=self.take_notes(),
            tab=self.number,
        )

    async def close(self) -> None:
        """Throw the tab away, whatever state it is in."""
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

    async def _read(self, whole: bool, seen: bool) -> Reading:
        options = {"whole": whole, "seen": seen, "short": SHORT_CHARS, "share": LEAST_SHARE}
        return await self.script.ask(Reading, "read", options)

    async def _settle(self, state: Literal["load", "networkidle"]) -> None:
        with contextlib.suppress(PlaywrightTimeout):
            await self.page.wait_for_load_state(state, timeout=SETTLE_S * 1000)

    async def _judge(self, asked: str) -> None:
        """Raise what the proxy answered in the server's place, or why there is no page at all.

        A page may forge the header; all it gains is that it is not read.
        """
        code = self._answer.headers.get(GUARD_HEADER) if self._answer is not None else None
        if self._answer is not None and code is not None:
            text = await self._answer.text()
            raise Forbidden(text) if code == Forbidden.code else Unavailable(text)
        if self.page.url.startswith("chrome-error:"):
            raise BadInput(f"{asked} could not be loaded: {reason_of(self._failure)}.")

    def _is_ours(self, request: Request) -> bool:
        try:
            return request.is_navigation_request() and request.frame == self.page.main_frame
        except Error:  # its frame is not there yet, or no more
            return False

    def _on_request(self, request: Request) -> None:
        if self._is_ours(request):
            self._loading = True
            self._begun.set()

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
        # now, and not when its agent comes back: by then the reason would be another's
        self._ended = self._endings.recent() or CRASHED
        self.crashed.set()

    def _on_download(self, offered: OfferedFile) -> None:
        self.note(
            f"It offered a file, {offered.suggested_filename[:100]!r}: fetch it by `download`."
        )
        self._begun.set()
        self._arrive()

    async def _on_dialog(self, dialog: Dialog) -> None:
        self.note(f"The page's {dialog.type} was closed; it said: {dialog.message[:200]!r}")
        self._dialogs += 1
        if self._dialogs > DIALOGS_AT_ONCE:
            # a loop of them keeps Chromium itself busy, which shows the pages of all
            await asyncio.sleep(DIALOG_PAUSE_S)
        with contextlib.suppress(Error):
            # `stay on this page?` is the one question to say yes to, or nothing could be left
            await (dialog.accept() if dialog.type == "beforeunload" else dialog.dismiss())

    def _arrive(self) -> None:
        self._loading = False
        self._arrived.set()
