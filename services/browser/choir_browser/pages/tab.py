"""One tab: go to a URL, let it settle, read it out.

Made and kept by chromium.py; a tab that failed in any way is thrown away, not mended.
"""

import asyncio
import contextlib
from typing import Literal

from playwright.async_api import CDPSession, Error, Page, Response
from playwright.async_api import TimeoutError as PlaywrightTimeout
from pydantic import BaseModel, ConfigDict, ValidationError

from choir_browser.guard.proxy import GUARD_HEADER
from choir_browser.pages.faults import translate
from choir_browser.pages.port import RawPage
from choir_common.errors import BadInput, DeadlineExceeded, Forbidden, Unavailable

# Past the first content, a page gets this long to finish what a reader would wait for.
SETTLE_S = 2.0
# Under this, a page is likely still drawing itself by script.
SPARSE_CHARS = 40
MAX_HTML_CHARS = 1_500_000
MAX_TEXT_CHARS = 200_000
MAX_TITLE_CHARS = 500
BLANK = "about:blank"

# Runs in a world of its own, where the page's scripts have not replaced what `slice` means.
_READ = f"""(() => {{
  const d = document, cut = (s, n) => String(s || '').slice(0, n);
  return JSON.stringify({{
    title: cut(d.title, {MAX_TITLE_CHARS}),
    text: cut(d.body ? d.body.innerText : d.documentElement.textContent, {MAX_TEXT_CHARS}),
    html: cut(d.documentElement.outerHTML, {MAX_HTML_CHARS}),
  }});
}})()"""


class _Reading(BaseModel):
    model_config = ConfigDict(frozen=True)

    title: str
    text: str
    html: str


class Tab:
    """A page of an agent's context, with the debugging line that reads it."""

    def __init__(self, page: Page, line: CDPSession) -> None:
        self._page = page
        self._line = line

    async def load(self, url: str, timeout_s: float) -> RawPage:
        """Load and read `url` within `timeout_s`.

        Raises as `Room.load` does.
        """
        try:
            async with asyncio.timeout(timeout_s):
                return await self._load(url, timeout_s)
        except TimeoutError as error:
            raise DeadlineExceeded(f"{url} did not load within {timeout_s:g} s.") from error
        except Error as error:
            raise translate(error, url) from error

    async def clear(self) -> None:
        """Leave the page, so that its scripts end. Raises DeadlineExceeded when it hangs on."""
        try:
            await self._page.goto(BLANK, timeout=2_000)
        except Error as error:
            raise translate(error, BLANK) from error

    async def close(self) -> None:
        """Throw the tab away, whatever state it is in."""
        with contextlib.suppress(Error, TimeoutError):
            async with asyncio.timeout(3):
                await self._page.close(run_before_unload=False)

    async def _load(self, url: str, timeout_s: float) -> RawPage:
        response = await self._page.goto(
            url, wait_until="domcontentloaded", timeout=timeout_s * 1000
        )
        if response is None:
            raise BadInput(f"{url} gave no page.")
        await _raise_refusal(response)
        await self._settle("load")
        reading = await self._read()
        if len(reading.text.strip()) < SPARSE_CHARS and "<script" in reading.html:
            await self._settle("networkidle")
            reading = await self._read()
        where = self._page.url
        if not where.startswith(("http://", "https://")):
            raise BadInput(f"{url} ended at {where[:100]}, which is no web page.")
        return RawPage(where, response.status, reading.title, reading.html, reading.text)

    async def _settle(self, state: Literal["load", "networkidle"]) -> None:
        with contextlib.suppress(PlaywrightTimeout):
            await self._page.wait_for_load_state(state, timeout=SETTLE_S * 1000)

    async def _read(self) -> _Reading:
        tree = await self._line.send("Page.getFrameTree")
        frame = tree["frameTree"]["frame"]["id"]
        world = await self._line.send(
            "Page.createIsolatedWorld", {"frameId": frame, "worldName": "choir"}
        )
        answer = await self._line.send(
            "Runtime.evaluate",
            {
                "expression": _READ,
                "contextId": world["executionContextId"],
                "returnByValue": True,
                "timeout": 10_000,
            },
        )
        try:
            return _Reading.model_validate_json(answer["result"].get("value", ""))
        except ValidationError as error:
            raise BadInput("The page changed while it was being read.") from error


async def _raise_refusal(response: Response) -> None:
    """Raise what the proxy answered in the server's place.

    A page may forge the header; all it gains is that it is not read.
    """
    code = response.headers.get(GUARD_HEADER)
    if code == Forbidden.code:
        raise Forbidden(await response.text())
    if code is not None:
        raise Unavailable(await response.text())
