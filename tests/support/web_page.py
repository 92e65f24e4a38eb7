"""A real Chromium at the web page of a stack: what it loads, what breaks out, and screenshots for people.

With CHOIR_SCREENSHOTS=FOLDER the tests of the page store what they show there.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import (
    Browser,
    BrowserContext,
    Error,
    Locator,
    Page,
    Request,
    ViewportSize,
    async_playwright,
    expect,
)

from tests.support.chromium import PAGE_CHROMIUM

AXE = Path(__file__).parent / "axe" / "axe.min.js"
SERIOUS = ("serious", "critical")
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
PATIENCE_MS = 60_000
LOADS = 5
NETWORK_CHANGED = ("ERR_NETWORK_CHANGED", 'another navigation to "chrome-error:')
"""Errors of a load while the network of this machine changes: the first, and that of a second try."""
UNUSED_S = 310
"""After five minutes without a touch, a page does not say any more that it is looked at."""
# Tables of the pages are shown as cards on a phone, so they need no scrolling there.
SIDEWAYS = """
[...document.querySelectorAll('#main, #main *')].filter((it) => it.scrollWidth > it.clientWidth + 1
  && /auto|scroll/.test(getComputedStyle(it).overflowX)
  && !it.matches('.table, pre, textarea, .tabs, .math, .setup-command code, .data-table:not(:has(.foldable))')
).map((it) => `${it.tagName}.${it.className} ${it.scrollWidth} ${it.textContent.slice(0, 60)}`)
"""
WATCH = """
window.violations = [];
addEventListener('securitypolicyviolation', (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI}`);
});
"""
SEND_AGAIN = """
{
  const send = window.fetch;
  window.fetch = async (address, options) => {
    try {
      return await send(address, options);
    } catch (error) {
      if (!(error instanceof TypeError) || (options?.method ?? 'GET') === 'GET') throw error;
      return await send(address, options);
    }
  };
}
"""
"""Chromium drops what is under way when a container changes the network of this machine. The pages themselves
repeat what they read, and tell a person that something was not sent."""


@dataclass
class WebTab:
    """A tab, and everything that went wrong in it."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    """Requests to other servers."""
    failures: list[str] = field(default_factory=list)
    """Dialogs, and errors of scripts."""
    aborted: list[str] = field(default_factory=list)
    """Requests without an answer, each with the reason."""

    def watch(self) -> None:
        """Record requests, dialogs and errors from now on."""
        self.page.on("request", self._take_request)
        self.page.on("requestfailed", self._take_failure)
        self.page.on("pageerror", lambda error: self.failures.append(f"error: {error}"))
        self.page.on("dialog", lambda dialog: self.failures.append(f"dialog: {dialog.message}"))

    def _take_request(self, request: Request) -> None:
        if request.url.startswith("blob:"):
            return
        self.requests.append(f"{request.method} {urlsplit(request.url).path}")
        if not request.url.startswith(f"{self.origin}/"):
            self.foreign.append(request.url)

    def _take_failure(self, request: Request) -> None:
        self.aborted.append(f"{request.url} {request.failure}")
        print(f"{request.method} {request.url}: {request.failure}")  # shown if the test fails

    async def shows(self, element: Locator) -> None:
        """Wait until the loaded page shows an element; load it again if the network changed meanwhile."""
        try:
            await expect(element).to_be_visible(timeout=PATIENCE_MS)
        except AssertionError:
            if not any("ERR_NETWORK_CHANGED" in it for it in self.aborted):
                raise AssertionError(f"the page is not there; {self.aborted}") from None
            await self.page.reload()
            await expect(element).to_be_visible(timeout=PATIENCE_MS)

    async def count_idle_minute(self, ignored: tuple[str, ...] = ()) -> list[str]:
        """Let a minute of the page's clock pass, which stands still, and return the requests sent.

        In steps, so that a request is answered before the page looks at its clock again.
        """
        # what the jump of the clock before has fired is sent first
        await self.page.clock.run_for(3_000)
        await asyncio.sleep(0.05)
        before = len(self.requests)
        for _ in range(20):
            await self.page.clock.run_for(3_000)
            await asyncio.sleep(0.05)
        return [it for it in self.requests[before:] if not any(part in it for part in ignored)]

    async def check(self) -> None:
        """Fail if something broke out, or if the page broke the rules of its own policy."""
        assert self.failures == [], self.failures
        assert self.foreign == [], self.foreign
        assert await self.page.evaluate("window.broken") is None
        violations = await self.page.evaluate("window.violations")
        assert violations == [], violations

    async def check_access(self) -> None:
        """Fail for serious findings of axe-core."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(AXE.read_text())
        found: dict[str, Any] = await self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations']})"
        )
        serious = [
            f"{it['id']}: {it['nodes'][0]['html'][:200]} {it['nodes'][0].get('failureSummary', '')[:200]}"
            for it in found["violations"]
            if it["impact"] in SERIOUS
        ]
        assert serious == [], "\n".join(serious)

    async def check_width(self) -> None:
        """Fail if the page, or anything in it that is not meant to, scrolls sideways."""
        size = self.page.viewport_size
        assert size is not None
        width = await self.page.evaluate("document.documentElement.scrollWidth")
        assert width <= size["width"], f"the page is {width} px wide"
        wide = await self.page.evaluate(SIDEWAYS)
        assert wide == [], wide

    async def shoot(self, name: str) -> None:
        """Store a screenshot if the environment asks for them."""
        folder = os.environ.get("CHOIR_SCREENSHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            await self.page.screenshot(path=Path(folder) / f"{name}.png")


@contextlib.asynccontextmanager
async def running_chromium(
    *flags: str, executable: str | None = PAGE_CHROMIUM
) -> AsyncIterator[Browser]:
    """Start Chromium with these command-line flags."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=executable, chromium_sandbox=False, args=flags
        )
        yield browser
        await browser.close()


async def open_context(browser: Browser, **more: Any) -> BrowserContext:
    """Return a new browser profile."""
    context = await browser.new_context(
        **{"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce", **more}
    )
    context.set_default_timeout(PATIENCE_MS)
    context.on("page", _outlive_network_changes)
    await context.add_init_script(WATCH + SEND_AGAIN)
    return context


def _outlive_network_changes(page: Page) -> None:
    """Let the page be loaded again if the network of this machine changes, as each container does it."""
    for name in ("goto", "reload"):
        setattr(page, name, _repeated(getattr(page, name)))


def _repeated(load: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    async def load_again(*args: Any, **options: Any) -> Any:
        for _ in range(LOADS - 1):
            try:
                return await load(*args, **options)
            except Error as error:
                if not any(reason in error.message for reason in NETWORK_CHANGED):
                    raise
            await asyncio.sleep(0.2)
        return await load(*args, **options)

    return load_again


async def open_tab(context: BrowserContext, url: str) -> WebTab:
    """Open a page in a new tab."""
    parts = urlsplit(url)
    tab = WebTab(await context.new_page(), f"{parts.scheme}://{parts.netloc}")
    tab.watch()
    await tab.page.goto(url)
    return tab
