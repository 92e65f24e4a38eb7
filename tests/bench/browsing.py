"""Time from a request to the page's text: the browser service over the bus, and bare Playwright as baseline.

Both read the same local article with the same Chromium. The service adds the bus, the egress proxy, isolation
and the conversion to text that a model can read.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from playwright.async_api import Page, async_playwright

from choir_browser.pages.chromium_program import find_chromium
from choir_browser.settings import BrowserSettings
from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from tests.bench.figures import percentile
from tests.security.browser.visiting import open_request
from tests.security.browser.web import Answer, Site, html, open_site
from tests.support.bus import BUS_KEY
from tests.support.service_process import running_bus_server, service_process

WARM_UP = 5
BLOCKS = 10
READS_A_BLOCK = 10
STYLE = Answer(b"p { color: #333 }" * 500, headers=("Content-Type: text/css",))


def publish(site: Site) -> str:
    """Publish an article of about 20,000 characters on the site; return its address."""
    body = "".join(
        f"<p>Paragraph {n} tells of the river, its <a href='/b{n}'>bridges</a> and boats.</p>"
        for n in range(300)
    )
    page = html(f"<link rel=stylesheet href=/style.css><article><h1>River</h1>{body}</article>")
    site.paths |= {"/article": page, "/style.css": STYLE}
    return f"{site.url}/article"


@contextlib.asynccontextmanager
async def plain_page(chromium: Path) -> AsyncIterator[Page]:
    """Open a page in a plain Chromium, without the browser service."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, chromium_sandbox=False)
        yield await (await browser.new_context()).new_page()
        await browser.close()


async def _timed(read: Callable[[], Awaitable[str]], taken: list[float]) -> None:
    for _ in range(READS_A_BLOCK):
        start = time.perf_counter()
        text = await read()
        taken.append((time.perf_counter() - start) * 1000)
        if "Paragraph 7 tells" not in text:
            raise AssertionError(f"not the article: {text[:200]}")


async def measure_browsing() -> dict[str, float]:
    """Return milliseconds from request to text for service and baseline, and their ratio.

    Raises Unavailable before anything is started if the machine has no Chromium.
    """
    chromium = find_chromium(BrowserSettings().chromium, None)
    async with (
        running_bus_server() as nats,
        open_site() as site,
        service_process("choir_browser", nats.url) as worker,
        Bus(nats.url, BUS_KEY, "bench") as bus,
        plain_page(chromium) as page,
    ):
        worker.env["CHOIR_CHROMIUM"] = str(chromium)
        worker.env["CHOIR_BROWSER_ALLOW"] = f"127.0.0.1:{site.port}"
        await worker.start()
        browser, url = NatsBrowserClient(bus), publish(site)

        async def choir() -> str:
            return (await browser.browse(open_request("bench", url))).text

        async def bare() -> str:
            await page.goto(url)
            return await page.inner_text("body")

        for _ in range(WARM_UP):
            await choir()
            await bare()
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(BLOCKS):
            await _timed(choir, ours)
            await _timed(bare, theirs)
        await worker.stop()
    return {
        "choir_p50_ms": round(percentile(ours, 0.5), 1),
        "choir_p99_ms": round(percentile(ours, 0.99), 1),
        "bare_p50_ms": round(percentile(theirs, 0.5), 1),
        "bare_p99_ms": round(percentile(theirs, 0.99), 1),
        "ratio_p50": round(percentile(ours, 0.5) / percentile(theirs, 0.5), 2),
        "reads": len(ours),
    }
