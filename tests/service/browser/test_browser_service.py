"""The browser worker as a process behind its walls, asked over a real bus, with a real Chromium.

Tests that only read pages share one worker; those that stop or configure it have one of their own.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from choir_common.bus.client import Bus
from choir_common.clients.browser import NatsBrowserClient
from choir_common.errors import DeadlineExceeded, Forbidden, InvalidRequest, Unavailable
from choir_common.wire.browser import BrowseRequest, BrowseResponse, CloseContext, OpenPage
from choir_local.nats import EmbeddedNats
from tests.security.browser.web import Answer, Site, html, open_site, redirect
from tests.service.browser.acting import kill_chromium, named_below
from tests.support.bus import BUS_KEY
from tests.support.chromium import needs_chromium
from tests.support.confined_browser import confined_browser
from tests.support.service_process import ServiceProcess, running_bus_server

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]


@contextlib.asynccontextmanager
async def running_worker(nats: EmbeddedNats, site: Site) -> AsyncIterator[ServiceProcess]:
    """Start a worker that may visit the site."""
    async with confined_browser(nats.url) as process:
        process.env |= {"CHOIR_BROWSER_ALLOW": f"127.0.0.1:{site.port}"}
        await process.start()
        yield process
        await process.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_browser(shared_site: Site) -> AsyncIterator[NatsBrowserClient]:
    async with (
        running_bus_server() as server,
        running_worker(server, shared_site),
        Bus(server.url, BUS_KEY, "test") as bus,
    ):
        yield NatsBrowserClient(bus)


@pytest.fixture
def site(shared_site: Site) -> Site:
    """The site, empty again."""
    shared_site.paths.clear()
    shared_site.requests.clear()
    return shared_site


@pytest_asyncio.fixture(loop_scope="module")
async def browser(shared_browser: NatsBrowserClient) -> AsyncIterator[NatsBrowserClient]:
    """The shared worker; agent `main` leaves nothing in it."""
    yield shared_browser
    await shared_browser.close(CloseContext(agent_id="main"))


@pytest_asyncio.fixture(loop_scope="module")
async def nats() -> AsyncIterator[EmbeddedNats]:
    async with running_bus_server() as server:
        yield server


@pytest_asyncio.fixture(loop_scope="module")
async def worker(nats: EmbeddedNats, site: Site) -> AsyncIterator[ServiceProcess]:
    """A worker of the test's own."""
    async with running_worker(nats, site) as process:
        yield process


@pytest_asyncio.fixture(loop_scope="module")
async def own_browser(
    worker: ServiceProcess, nats: EmbeddedNats
) -> AsyncIterator[NatsBrowserClient]:
    async with Bus(nats.url, BUS_KEY, "test") as bus:
        yield NatsBrowserClient(bus)


async def read(
    browser: NatsBrowserClient, url: str, agent_id: str = "main", timeout_ms: int = 60_000
) -> BrowseResponse:
    return await browser.browse(
        BrowseRequest(
            agent_id=agent_id, call_id="c", action=OpenPage(url=url), timeout_ms=timeout_ms
        )
    )


def chromium_of(worker: ServiceProcess) -> list[psutil.Process]:
    assert worker.process is not None
    return named_below(psutil.Process(worker.process.pid), "chrom")


async def test_a_page_arrives_as_text_with_its_title_and_final_address(
    browser: NatsBrowserClient, site: Site
) -> None:
    site.paths["/moved"] = redirect("/hours")
    site.paths["/hours"] = html("<h1>Hours</h1><p>We open at nine.</p>", "The shop")
    page = await read(browser, f"{site.url}/moved")
    assert (page.url, page.status, page.title) == (f"{site.url}/hours", 200, "The shop")
    assert "We open at nine." in page.text and not page.truncated


async def test_an_article_arrives_without_its_clutter_and_capped(
    browser: NatsBrowserClient, site: Site
) -> None:
    words = "".join(f"<p>Paragraph {n} tells of the river and its bridges.</p>" for n in range(900))
    site.paths["/long"] = html(f"<nav>{'menu ' * 50}</nav><article><h1>R</h1>{words}</article>")
    page = await read(browser, f"{site.url}/long")
    assert page.truncated and len(page.text) == 20_000
    assert "Paragraph 7 tells" in page.text and "menu menu" not in page.text


async def test_a_page_drawn_by_script_is_read_as_drawn(
    browser: NatsBrowserClient, site: Site
) -> None:
    site.paths["/app"] = html(
        "<div id=a></div><script>setTimeout(()=>a.textContent='Drawn by script.',200)</script>"
    )
    assert "Drawn by script." in (await read(browser, f"{site.url}/app")).text


async def test_an_error_page_is_a_page_and_says_its_status(
    browser: NatsBrowserClient, site: Site
) -> None:
    assert (await read(browser, f"{site.url}/none")).status == 404


async def test_agents_do_not_share_cookies_and_a_closed_context_forgets(
    browser: NatsBrowserClient, site: Site
) -> None:
    kind = "Content-Type: text/html"
    site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=main; Path=/", kind))
    site.paths["/"] = html("<p id=p></p><script>p.textContent='cookie:'+document.cookie</script>")
    await read(browser, f"{site.url}/set", "main")
    assert "who=main" in (await read(browser, site.url, "main")).text
    assert "who=main" not in (await read(browser, site.url, "other")).text
    await browser.close(CloseContext(agent_id="main"))
    await browser.close(CloseContext(agent_id="main"))
    assert "who=main" not in (await read(browser, site.url, "main")).text


async def test_another_life_of_an_agent_finds_nothing_of_the_one_before(
    browser: NatsBrowserClient, site: Site
) -> None:
    kind = "Content-Type: text/html"
    site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=main; Path=/", kind))
    site.paths["/"] = html("<p id=p></p><script>p.textContent='cookie:'+document.cookie</script>")
    await browser.browse(a_page(f"{site.url}/set", "ses_1/1"))
    assert "who=main" in (await browser.browse(a_page(site.url, "ses_1/1"))).text
    # its end was told to nobody; both of these come at once
    lanes = ("edge", "core:a")
    pages = await asyncio.gather(
        *(browser.browse(a_page(site.url, "ses_1/2", lane)) for lane in lanes)
    )
    assert not any("who=main" in page.text for page in pages)


def a_page(url: str, life: str, lane: str = "edge") -> BrowseRequest:
    action = OpenPage(url=url)
    return BrowseRequest(agent_id="main", life=life, call_id="c", action=action, lane=lane)


async def test_a_page_that_hangs_ends_at_its_deadline_and_harms_no_other(
    browser: NatsBrowserClient, site: Site
) -> None:
    site.paths["/never"] = Answer(b"late", delay_s=60)
    site.paths["/busy"] = html("<script>for(;;);</script>")
    site.paths["/alert"] = html("<script>alert(1);confirm(2);prompt(3)</script><p>after alerts")
    site.paths["/loop"] = redirect("/loop")
    site.paths["/fine"] = html("all is well")
    await read(browser, f"{site.url}/fine")
    for path in ("/never", "/busy"):
        with pytest.raises(DeadlineExceeded):
            await read(browser, site.url + path, timeout_ms=1_500)
        assert "all is well" in (await read(browser, f"{site.url}/fine")).text
    assert "after alerts" in (await read(browser, f"{site.url}/alert")).text
    with pytest.raises(InvalidRequest, match="redirects endlessly"):
        await read(browser, f"{site.url}/loop")


async def test_what_is_no_page_is_said_plainly(browser: NatsBrowserClient, site: Site) -> None:
    binary = ("Content-Type: application/octet-stream",)
    site.paths["/file"] = Answer(b"\x00" * 1000, headers=binary)
    site.paths["/empty"] = Answer(b"", "204 No Content", ())
    site.paths["/json"] = Answer(b'{"a": 1}', headers=("Content-Type: application/json",))
    for path in ("/file", "/empty"):
        with pytest.raises(InvalidRequest):
            await read(browser, site.url + path)
    assert '"a"' in (await read(browser, f"{site.url}/json")).text
    with pytest.raises(Forbidden, match="CHOIR_BROWSER_ALLOW"):
        await read(browser, "http://localhost:1/")
    with pytest.raises(Unavailable, match="could not be resolved"):
        await read(browser, "http://no-such-name.invalid/")


async def test_chromium_starts_with_the_first_page_is_replaced_when_killed_and_ends_with_its_worker(
    own_browser: NatsBrowserClient, worker: ServiceProcess, site: Site
) -> None:
    assert chromium_of(worker) == []
    site.paths["/"] = html("still here")
    site.paths["/slow"] = Answer(b"slow", delay_s=300)
    await read(own_browser, site.url)
    assert chromium_of(worker)
    async with asyncio.TaskGroup() as group:
        under_way = group.create_task(expect_crash(own_browser, f"{site.url}/slow"))
        async with asyncio.timeout(60):
            while not any(request.startswith("GET /slow") for request in site.requests):
                await asyncio.sleep(0.02)
        assert worker.process is not None
        kill_chromium(psutil.Process(worker.process.pid))
        await under_way
    assert "still here" in (await read(own_browser, site.url)).text
    left = chromium_of(worker)
    assert left
    await worker.kill()
    _, alive = await asyncio.to_thread(psutil.wait_procs, left, 60)
    assert alive == []


async def expect_crash(browser: NatsBrowserClient, url: str) -> None:
    with pytest.raises(Unavailable, match="crashed"):
        await read(browser, url)


@pytest.mark.nightly  # tests/security/browser/test_isolation.py has several agents at once
async def test_many_pages_of_many_agents_load_at_once(
    browser: NatsBrowserClient, site: Site
) -> None:
    for number in range(12):
        site.paths[f"/{number}"] = html(f"page number {number}")

    async def one(number: int) -> str:
        return (await read(browser, f"{site.url}/{number}", f"agent{number % 4}")).text

    texts = await asyncio.gather(*(one(number) for number in range(12)))
    assert texts == [f"page number {number}" for number in range(12)]


@pytest.mark.nightly  # the test above ends with a worker that is killed
async def test_no_chromium_outlives_a_worker_that_is_stopped(
    own_browser: NatsBrowserClient, worker: ServiceProcess, site: Site
) -> None:
    site.paths["/"] = html("hello there")
    await read(own_browser, site.url)
    left = chromium_of(worker)
    assert left
    await worker.stop()
    _, alive = await asyncio.to_thread(psutil.wait_procs, left, 60)
    assert alive == []


@pytest.mark.nightly  # the test above ends and starts Chromium, test_acting.py keeps cookies
async def test_an_idle_chromium_ends_and_the_agent_keeps_its_cookies(
    nats: EmbeddedNats, site: Site
) -> None:
    site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=me", "Content-Type: text/html"))
    site.paths["/"] = html("<p id=p></p><script>p.textContent='cookie:'+document.cookie</script>")
    async with (
        confined_browser(nats.url) as worker,
        Bus(nats.url, BUS_KEY, "test") as bus,
    ):
        worker.env |= {
            "CHOIR_BROWSER_ALLOW": f"127.0.0.1:{site.port}",
            "CHOIR_BROWSER_IDLE_S": "1",
        }
        await worker.start()
        await read(NatsBrowserClient(bus), f"{site.url}/set")
        async with asyncio.timeout(60):
            while chromium_of(worker):
                await asyncio.sleep(0.1)
        assert "who=me" in (await read(NatsBrowserClient(bus), site.url)).text
        await worker.stop()


async def test_without_chromium_the_worker_is_up_and_says_what_is_missing(
    nats: EmbeddedNats, site: Site
) -> None:
    async with (
        confined_browser(nats.url) as worker,
        Bus(nats.url, BUS_KEY, "test") as bus,
    ):
        worker.env |= {
            "CHOIR_CHROMIUM": "/nowhere/chromium",
            "CHOIR_BROWSER_ALLOW": f"127.0.0.1:{site.port}",
        }
        await worker.start()
        with pytest.raises(Unavailable, match="/nowhere/chromium"):
            await read(NatsBrowserClient(bus), f"{site.url}/")
        status = await NatsBrowserClient(bus).status()
        assert status.ok and "/nowhere/chromium" in status.detail
        await worker.stop()
