"""Row S8: nothing a page or a URL says makes the browser touch an address that is not public."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio

from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_common.egress.addresses import Allowlist, parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import ChoirError, Forbidden, InvalidRequest
from tests.security.browser.vectors import HEADS, HOSTS, PAGES, SCHEMES
from tests.security.browser.visiting import (
    FlippingResolver,
    MakeRooms,
    ask_proxy,
    browse,
    make_proxy,
    name_the_trap,
    pass_of,
)
from tests.security.browser.web import Answer, Site, Trap, html, open_site, open_trap, redirect

pytestmark = pytest.mark.asyncio(loop_scope="module")

WORDS = "<p>harmless words, and enough of them to be taken for a page</p>"
VISITORS = 4
NAMES = (*PAGES, *HEADS)
EVERY_VECTOR = bool(os.environ.get("CHOIR_TEST_EVERY_VECTOR"))
# All by night; by day every fourth.
GUARDED = NAMES if EVERY_VECTOR else NAMES[::4]
UNGUARDED = NAMES if EVERY_VECTOR else NAMES[::3]
# Some need what no test has, a second gesture or another protocol.
MOSTLY = 0.6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site() -> AsyncIterator[Site]:
    async with open_site() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_trap() -> AsyncIterator[Trap]:
    async with open_trap() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rooms(make_rooms: MakeRooms, shared_site: Site) -> AsyncIterator[BrowserContexts]:
    """One Chromium behind the guard, which may visit the site and nothing else."""
    async with make_rooms(f"127.0.0.1:{shared_site.port}") as opened:
        yield opened


@pytest.fixture
def site(shared_site: Site) -> Site:
    """The site, empty again."""
    shared_site.paths.clear()
    shared_site.requests.clear()
    return shared_site


@pytest.fixture
def trap(shared_trap: Trap) -> Trap:
    """The trap, which nobody has reached yet."""
    shared_trap.hits.clear()
    return shared_trap


def lay_out(site: Site, trap: Trap) -> None:
    """Put what the pages refer to on the site."""
    site.paths["/slow"] = Answer(b"", delay_s=0.4)  # holds the load until scripts have run
    site.paths["/hop"] = redirect(f"http://127.0.0.1:{trap.port}/")
    site.paths["/hop2"] = redirect("/hop")
    site.paths["/hop307"] = redirect(f"http://127.0.0.1:{trap.port}/", "307 Temporary")
    script = f'fetch("http://127.0.0.1:{trap.port}/",{{mode:"no-cors"}})'
    site.paths["/worker.js"] = Answer(script.encode(), headers=("Content-Type: text/javascript",))


def page_of(name: str, trap: Trap) -> Answer:
    """Write one of `PAGES` or `HEADS` for a trap."""
    t, p = f"127.0.0.1:{trap.port}", trap.port
    if name in PAGES:
        return html(f'{PAGES[name].format(t=t, p=p)}<img src="/slow">{WORDS}')
    page = html(f'<img src="/none"><img src="/slow">{WORDS}')
    fields = (*page.headers, *(line.format(t=t, p=p) for line in HEADS[name]))
    return Answer(page.body, headers=fields)


async def try_all(
    rooms: BrowserContexts, site: Site, traps: list[Trap], names: Sequence[str]
) -> set[str]:
    """Visit pages, a few at a time; return the names of those that reached their trap."""
    reached = set()

    async def visit(visitor: int, trap: Trap) -> None:
        for name in names[visitor::VISITORS]:
            before = len(trap.hits)
            path = f"/{visitor}/{names.index(name)}"
            site.paths[path] = page_of(name, trap)
            with contextlib.suppress(ChoirError):
                page = await browse(rooms, site.url + path, f"a{visitor}", 20_000)
                assert "SECRET" not in page.text or trap.hits
            await asyncio.sleep(0.1)  # what it had begun may still arrive
            if len(trap.hits) > before:
                reached.add(name)

    async with asyncio.TaskGroup() as group:
        for visitor, trap in enumerate(traps):
            group.create_task(visit(visitor, trap))
    return reached


@pytest.mark.parametrize("form", ["GET http://{}:{}/ HTTP/1.1", "CONNECT {}:{} HTTP/1.1"])
async def test_the_proxy_dials_no_form_of_a_private_address(
    trap: Trap, resolver: FlippingResolver, form: str
) -> None:
    async with make_proxy(Dialer(Allowlist(), resolver)) as proxy:
        for host in HOSTS:
            name_the_trap(resolver)
            resolver.names["rebind.test"] = ["127.0.0.1"]
            answer = await ask_proxy(proxy, form.format(host, trap.port))
            assert answer.startswith((b"HTTP/1.1 403", b"HTTP/1.1 502")), host
    assert trap.hits == []


async def test_the_proxy_serves_nobody_without_a_pass(site: Site) -> None:
    from_site = Dialer(Allowlist())
    async with make_proxy(from_site) as proxy:
        port = int(proxy.url.rpartition(":")[2])
        for head in ("", "Proxy-Authorization: Basic eDp5\r\n", "Proxy-Authorization: x\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {site.url}/ HTTP/1.1\r\n{head}\r\n".encode())
            assert (await reader.readline()).startswith(b"HTTP/1.1 407")
            writer.close()
    assert site.requests == []


async def test_a_url_to_a_private_address_is_forbidden(
    make_rooms: MakeRooms, trap: Trap, resolver: FlippingResolver
) -> None:
    async with make_rooms("") as rooms:
        for host in HOSTS:
            for scheme in ("http", "https"):
                name_the_trap(resolver)
                with pytest.raises(ChoirError) as caught:
                    await browse(rooms, f"{scheme}://{host}:{trap.port}/")
                assert caught.value.status < 500 or "resolve" in caught.value.message, host
    assert trap.hits == []


async def test_only_the_web_can_be_opened(make_rooms: MakeRooms) -> None:
    async with make_rooms("") as rooms:
        for url in SCHEMES:
            with pytest.raises((Forbidden, InvalidRequest)):
                await browse(rooms, url)


async def test_a_redirect_to_a_private_address_is_refused_and_said(
    rooms: BrowserContexts, site: Site, trap: Trap, resolver: FlippingResolver
) -> None:
    name_the_trap(resolver)
    statuses = ("301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent")
    targets = ("127.0.0.1", "localhost", "[::1]", "2130706433", "trap.test", "0")
    for number, target in enumerate(targets):
        # by day one of them for each target; the proxy of both is the same
        for scheme in ("http", "https") if EVERY_VECTOR else (("http", "https")[number % 2],):
            path = f"/{scheme}{number}"
            status = statuses[number % len(statuses)]
            site.paths[path] = redirect(f"{scheme}://{target}:{trap.port}/", status)
            with pytest.raises(Forbidden, match="private, local or reserved"):
                await browse(rooms, site.url + path)
    site.paths["/file"] = redirect("file:///etc/passwd")
    with pytest.raises(InvalidRequest):
        await browse(rooms, f"{site.url}/file")
    site.paths["/metadata"] = redirect("http://169.254.169.254/latest/meta-data/")
    with pytest.raises(Forbidden):
        await browse(rooms, f"{site.url}/metadata")
    assert trap.hits == []


async def test_nothing_in_a_page_reaches_a_private_address(
    rooms: BrowserContexts, site: Site, trap: Trap, resolver: FlippingResolver
) -> None:
    name_the_trap(resolver)
    lay_out(site, trap)
    assert await try_all(rooms, site, [trap] * VISITORS, GUARDED) == set()
    for visitor in range(VISITORS):  # some pages wait for their end
        await rooms.close(f"a{visitor}")
    assert trap.hits == []


@pytest.mark.nightly  # shows that the traps of the others work
async def test_without_the_guard_the_same_pages_reach_the_trap(
    make_rooms: MakeRooms, site: Site, trap: Trap, resolver: FlippingResolver
) -> None:
    name_the_trap(resolver)
    lay_out(site, trap)
    async with contextlib.AsyncExitStack() as opened:
        traps = [await opened.enter_async_context(open_trap()) for _ in range(VISITORS)]
        rooms = await opened.enter_async_context(make_rooms("127.0.0.0/8,::1/128,0.0.0.0/32"))
        reached = await try_all(rooms, site, traps, UNGUARDED)
    idle = sorted({*UNGUARDED} - reached)
    print(f"{len(reached)} of {len(UNGUARDED)} pages reach it; not: {', '.join(idle)}")
    assert len(reached) >= MOSTLY * len(UNGUARDED)
    assert trap.hits, "the redirects led nowhere"


async def test_a_page_cannot_read_files(rooms: BrowserContexts, site: Site) -> None:
    site.paths["/page"] = html(
        '<iframe src="file:///etc/passwd"></iframe><img src="file:///etc/hostname">'
        "<script>fetch('file:///etc/passwd').then(r=>r.text()).then(t=>document.body.append(t))"
        "</script><p>these are harmless words, and enough of them</p>"
    )
    assert "root:" not in (await browse(rooms, f"{site.url}/page")).text


async def test_a_reused_line_cannot_carry_a_request_to_another_host(site: Site, trap: Trap) -> None:
    site.paths["/"] = html("fine")
    async with make_proxy(
        Dialer(parse_allowlist(f"127.0.0.1:{site.port}", "CHOIR_BROWSER_ALLOW"))
    ) as proxy:
        head = f"POST {site.url}/ HTTP/1.1\r\nContent-Length: 0\r\n{pass_of(proxy)}\r\n\r\n"
        smuggled = f"GET http://127.0.0.1:{trap.port}/ HTTP/1.1"
        answer = await ask_proxy(proxy, head + smuggled)
    assert answer.startswith(b"HTTP/1.1 200")
    assert len(site.requests) == 1
    assert trap.hits == []
