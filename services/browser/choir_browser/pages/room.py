"""One agent's browser context: run an action in a tab, and close tabs that hang or crash.

Created by chromium.py; called by contexts/rooms.py. The actions are in tab.py, hands.py,
pictures.py and fetching.py; tabbook.py selects the tab.
"""

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import TypeVar, assert_never

from playwright.async_api import BrowserContext, Error

from choir_browser.blobs.shelf import Shelf
from choir_browser.pages import hands
from choir_browser.pages.crashing import crash
from choir_browser.pages.faults import is_download, is_gone, is_interrupted, translate
from choir_browser.pages.fetching import Fetched, Fetching
from choir_browser.pages.owners import renderers_of
from choir_browser.pages.pictures import take_picture
from choir_browser.pages.script import Answer
from choir_browser.pages.tab import Tab
from choir_browser.pages.tabbook import TabBook
from choir_common.errors import (
    BadInput,
    ChoirError,
    Conflict,
    DeadlineExceeded,
    NotFound,
    TooLarge,
    Unavailable,
)
from choir_common.wire.browsing import (
    Action,
    Back,
    BrowsedPage,
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
_HARMLESS = (BadInput, NotFound, Conflict, TooLarge)


class ChromiumRoom:
    """A context whose tabs stay open until they are closed or the browser is stopped."""

    def __init__(self, context: BrowserContext, shelf: Shelf, book: TabBook) -> None:
        self._context = context
        self._shelf = shelf
        self._book = book
        self._turn = asyncio.Lock()
        self.alive = True

    async def act(self, lane: str, action: Action, timeout_s: float) -> BrowsedPage:
        """Run one action; see `Room.act`."""
        async with self._turn:
            match action:
                case Tabs():
                    return await self._book.arrange(lane, action)
                case Download(url=str() as url, ref=None):
                    return await self._fetch(lane, url, timeout_s)
                case OpenPage():
                    tab = await self._book.current_or_new(lane)
                case _:
                    tab = self._book.current_or_fail(lane)
            try:
                return await self._safely(lane, tab, action, timeout_s)
            except Unavailable as error:
                if not is_interrupted(error.__cause__):
                    raise
            # The page kept navigating and stopped our navigation. Its tab is closed now, so try
            # again in another.
            return await self._safely(
                lane, await self._book.current_or_new(lane), action, timeout_s
            )

    def places(self) -> dict[str, str]:
        """Return each lane's URL."""
        return self._book.places()

    async def renderers(self) -> frozenset[int]:
        """Return the ids of the processes that show this context's pages."""
        return await renderers_of(self._context)

    async def saved_state(self) -> str:
        """Return cookies and local storage as JSON text."""
        return json.dumps(await self._context.storage_state())

    async def close(self) -> None:
        """Destroy the context; no error if the browser is already gone."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._context.close()

    async def _safely(self, lane: str, tab: Tab, action: Action, timeout_s: float) -> BrowsedPage:
        what = action.url if isinstance(action, OpenPage) else f"The page ({action.action})"
        sound = False
        self._book.press_in(tab)
        try:
            async with asyncio.timeout(timeout_s):
                seen = await unless_crashed(tab, self._do(lane, tab, action, timeout_s))
            sound = True
            return seen
        except TimeoutError as error:
            raise DeadlineExceeded(
                f"{what} did not get done within {timeout_s:g} s; its tab was closed."
            ) from error
        except Error as error:
            # A failed load shows an error page a moment later, which would interrupt the next
            # navigation, so the tab is closed. A download leaves its tab unchanged.
            sound = is_download(error)
            if is_gone(error):
                raise Unavailable(await tab.why_gone()) from error
            raise translate(error, what) from error
        except ChoirError as error:
            sound = isinstance(error, _HARMLESS)
            raise
        finally:
            self._book.press_in(None)
            if not sound:
                await crash(tab)
                await self._book.drop(tab)
                await self._probe()

    async def _do(self, lane: str, tab: Tab, action: Action, timeout_s: float) -> BrowsedPage:
        match action:
            case OpenPage():
                await tab.open(action.url, timeout_s)
            case ReadPage():
                return await tab.look(action.start, action.whole)
            case Click():
                await hands.click(tab, action)
            case TypeText():
                await hands.type_text(tab, action)
                if not action.submit:
                    return tab.answer()
            case SelectOption():
                await hands.select(tab, action)
                return tab.answer()
            case Scroll():
                await hands.scroll(tab, action)
                return await tab.look(seen=True)
            case Back():
                await tab.back(timeout_s)
            case Screenshot():
                return await take_picture(tab, action, self._shelf, timeout_s)
            case Download():
                return await self._fetch_numbered(lane, tab, action, timeout_s)
            case Tabs():
                return await self._book.arrange(lane, action)
            case _:
                assert_never(action)
        return await self._look(lane, tab)

    async def _look(self, lane: str, tab: Tab) -> BrowsedPage:
        """Read a tab, or the tab that a click in it has opened."""
        newer = await self._book.take_opened(lane)
        if newer is not None:
            with newer.listening():
                await newer.follow()
            newer.note(f"This opened in a new tab, {newer.number}, which is the current one now.")
            for note in tab.take_notes():
                newer.note(note)
            tab = newer
        return await tab.look() if tab.url else tab.answer()

    async def _fetch_numbered(
        self, lane: str, tab: Tab, action: Download, timeout_s: float
    ) -> BrowsedPage:
        if action.ref is None or action.url is not None:
            raise BadInput("A download needs either an address (`url`) or a number (`ref`).")
        ref = action.ref
        link = await tab.script.ask(Answer, "link", ref)
        if link.value.startswith(("http://", "https://")):
            return await self._fetch(lane, link.value, timeout_s)
        if link.value:
            raise BadInput(f"{ref} leads to {link.value[:40]!r}, which no server can give.")
        async with Fetching(tab.line) as fetching:
            return _answer_with(
                tab, await fetching.file(lambda: hands.press(tab, ref), self._shelf)
            )

    async def _fetch(self, lane: str, url: str, timeout_s: float) -> BrowsedPage:
        """Download a URL in a temporary tab, with the lane's page as referrer."""
        current = self._book.current(lane)
        tab = await self._book.new(spare=True)
        going = {"url": url, "referrer": current.url if current else ""}
        try:
            async with asyncio.timeout(timeout_s), Fetching(tab.line) as fetching:
                fetched = await unless_crashed(
                    tab,
                    fetching.file(lambda: tab.line.send("Page.navigate", going), self._shelf),
                )
            return _answer_with(current or tab, fetched)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{url} did not arrive within {timeout_s:g} s.") from error
        except Error as error:
            raise translate(error, url) from error
        finally:
            await self._book.drop(tab)

    async def _probe(self) -> None:
        """Check whether the context still works or is lost with the tab."""
        try:
            async with asyncio.timeout(PROBE_S):
                await self._context.cookies("http://choir.invalid/")
        except (Error, TimeoutError):
            self.alive = False


async def unless_crashed(tab: Tab, doing: Coroutine[None, None, T]) -> T:
    """Run a coroutine for a tab; raises Unavailable if the tab crashes meanwhile or has crashed before."""
    work, crash = asyncio.create_task(doing), asyncio.create_task(tab.crashed.wait())
    try:
        await asyncio.wait({work, crash}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Unavailable(await tab.why_gone())
    finally:
        for task in (work, crash):
            task.cancel()
        await asyncio.gather(work, crash, return_exceptions=True)


def _answer_with(tab: Tab, fetched: Fetched) -> BrowsedPage:
    return tab.answer().model_copy(
        update={
            "blob": fetched.blob,
            "url": fetched.url,
            "origin": fetched.origin,
            "status": fetched.status,
        }
    )
