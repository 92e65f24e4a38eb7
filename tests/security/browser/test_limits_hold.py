"""What one agent's pages may take at most of the way out, of the processor and of memory is all they get."""

import asyncio
import contextlib
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.egress.traffic_limits import TrafficLimits
from choir_browser.limits import kill_policy
from choir_browser.limits.processes import chromium_processes
from choir_common.egress.addresses import Address, parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.errors import Unavailable
from choir_common.wire.browser import BrowseRequest, ReadPage
from tests.security.browser.hostile import HOGS, MILLION, WORDS
from tests.security.browser.visiting import MakeRooms, ask_proxy, asking_proxy, browse, make_proxy
from tests.security.browser.web import Answer, Site, html

FINE = html(f"all is well {WORDS}")
# Several, so that it gets its share of a processor where many others work.
WORKS = html(
    f"{WORDS}<script>b=URL.createObjectURL(new Blob(['for(;;);']));"
    "for(i=0;i<8;i++)new Worker(b)</script>"
)


class SilentResolver:
    """A name server that does not answer for some names until it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = asyncio.Event()

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        if host.endswith(".silent"):
            self.asked.append(host)
            await self.go_on.wait()
        return [ipaddress.ip_address("127.0.0.1")]


def dialler_to(site: Site) -> Dialer:
    return Dialer(parse_allowlist(f"127.0.0.1:{site.port}", "CHOIR_BROWSER_ALLOW"))


async def test_an_agents_pages_hold_so_many_connections_and_no_other_agents_count(
    site: Site,
) -> None:
    site.paths["/never"], site.paths["/fine"] = Answer(b"late", delay_s=600), FINE
    rates = TrafficLimits(MILLION, connections=3)
    slow, fine = (f"GET {site.url}{path} HTTP/1.1" for path in ("/never", "/fine"))
    async with make_proxy(dialler_to(site), rates) as proxy, contextlib.AsyncExitStack() as held:
        for _ in range(3):
            await held.enter_async_context(asking_proxy(proxy, slow, "greedy"))
        async with asyncio.timeout(60):
            while len(site.requests) < 3:
                await asyncio.sleep(0.01)
        assert (await ask_proxy(proxy, fine, "greedy")).startswith(b"HTTP/1.1 429")
        refusal = proxy.pop_refusal("greedy")
        assert refusal is not None and "too many open connections" in refusal.message
        assert (await ask_proxy(proxy, fine, "modest")).startswith(b"HTTP/1.1 200")
        await held.aclose()
        async with asyncio.timeout(30):
            while not (await ask_proxy(proxy, fine, "greedy")).startswith(b"HTTP/1.1 200"):
                await asyncio.sleep(0.01)


async def test_requests_beyond_a_burst_wait_and_no_other_agents_do(site: Site) -> None:
    site.paths["/fine"] = FINE
    fine = f"GET {site.url}/fine HTTP/1.1"
    rates = TrafficLimits(MILLION, request_burst=2, requests_per_second=0.001)
    async with make_proxy(dialler_to(site), rates) as proxy, asyncio.TaskGroup() as group:
        for _ in range(2):
            assert (await ask_proxy(proxy, fine, "greedy")).startswith(b"HTTP/1.1 200")
        waiting = group.create_task(ask_proxy(proxy, fine, "greedy"))
        for _ in range(2):
            assert (await ask_proxy(proxy, fine, "modest")).startswith(b"HTTP/1.1 200")
        assert not waiting.done() and len(site.requests) == 4
        waiting.cancel()


async def test_names_that_nobody_answers_for_hold_up_their_own_agent_alone(site: Site) -> None:
    site.paths["/fine"] = FINE
    resolver = SilentResolver()
    dialler = Dialer(parse_allowlist(f"127.0.0.1:{site.port}", "CHOIR_BROWSER_ALLOW"), resolver)
    async with (
        make_proxy(dialler, TrafficLimits(MILLION, concurrent_dials=2)) as proxy,
        asyncio.TaskGroup() as group,
    ):
        for number in range(6):
            asked = f"GET http://{number}.silent:{site.port}/fine HTTP/1.1"
            group.create_task(ask_proxy(proxy, asked, "greedy"))
        fine = f"GET {site.url}/fine HTTP/1.1"
        assert (await ask_proxy(proxy, fine, "modest")).startswith(b"HTTP/1.1 200")
        async with asyncio.timeout(60):
            while len(resolver.asked) < 2:
                await asyncio.sleep(0.01)
        for _ in range(3):  # what would ask has every chance to
            assert (await ask_proxy(proxy, fine, "modest")).startswith(b"HTTP/1.1 200")
        assert len(resolver.asked) == 2
        resolver.go_on.set()
    assert len(resolver.asked) == 6


def renderers() -> set[int]:
    """List the processes that show pages."""
    return {process.pid for process in chromium_processes(os.getpid()) if process.renderer}


async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Be a server that takes whatever it is sent."""
    with contextlib.suppress(OSError):
        while await reader.read(65_536):
            pass
    writer.close()


async def test_what_pages_send_counts_as_what_they_fetch(site: Site) -> None:
    site.paths["/fine"] = FINE
    fine = f"GET {site.url}/fine HTTP/1.1"
    server = await asyncio.start_server(swallow, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    dialler = Dialer(
        parse_allowlist(f"127.0.0.1:{site.port},127.0.0.1:{port}", "CHOIR_BROWSER_ALLOW")
    )
    async with make_proxy(dialler, TrafficLimits(MILLION)) as proxy:
        head = f"POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: {2 * MILLION}"
        async with asking_proxy(proxy, head, "greedy", b"x" * 2 * MILLION), asyncio.timeout(60):
            while not (await ask_proxy(proxy, fine, "greedy")).startswith(b"HTTP/1.1 429"):
                await asyncio.sleep(0.01)
        refusal = proxy.pop_refusal("greedy")
        assert refusal is not None and "1 MB within a minute" in refusal.message
        assert (await ask_proxy(proxy, fine, "modest")).startswith(b"HTTP/1.1 200")
    server.close()


async def until_it_is_ended(rooms: BrowserContexts, url: str) -> None:
    """Stay at a page, or come back to it; raises Unavailable with the reason when it is ended."""
    await browse(rooms, url, "victim")
    # on a busy machine a page of the lowest priority gets little of the processor
    async with asyncio.timeout(300):
        while True:
            await rooms.browse(
                BrowseRequest(agent_id="victim", call_id="c", action=ReadPage(), timeout_ms=60_000)
            )


@pytest.fixture
def little_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count nearly all work of a page: on a busy machine it gets less than the share that is free."""
    monkeypatch.setattr(kill_policy, "FREE_CPU_SHARE", 0.02)


@pytest.mark.usefixtures("little_is_free")
async def test_a_page_that_works_without_a_rest_is_ended_and_its_agent_told_why(
    make_rooms: MakeRooms, site: Site
) -> None:
    site.paths["/works"], site.paths["/fine"] = WORKS, FINE
    async with make_rooms(f"127.0.0.1:{site.port}", page_work_s=1) as rooms:
        await browse(rooms, f"{site.url}/fine", "honest")
        with pytest.raises(Unavailable, match="used more than 1 s of processor time"):
            await until_it_is_ended(rooms, f"{site.url}/works")
        for agent_id in ("honest", "victim"):
            assert "all is well" in (await browse(rooms, f"{site.url}/fine", agent_id)).text


@pytest.mark.nightly  # test_isolation.py shows that a runaway page stops nobody
@pytest.mark.usefixtures("little_is_free")
async def test_a_page_that_works_long_gives_way_to_all_others_in_each_of_its_threads(
    make_rooms: MakeRooms, site: Site
) -> None:
    site.paths["/works"], site.paths["/fine"] = WORKS, FINE

    def idle_ones() -> list[set[int]]:
        policies = [
            {os.sched_getscheduler(int(t.name)) for t in Path(f"/proc/{pid}/task").iterdir()}
            for pid in renderers()
        ]
        return [found for found in policies if os.SCHED_IDLE in found]

    async with make_rooms(f"127.0.0.1:{site.port}", page_work_s=10_000) as rooms:
        await browse(rooms, f"{site.url}/fine", "honest")
        await browse(rooms, f"{site.url}/works", "victim")
        async with asyncio.timeout(120):
            while not (found := idle_ones()):
                await asyncio.sleep(0.1)
        assert found == [{os.SCHED_IDLE}]
        assert "all is well" in (await browse(rooms, f"{site.url}/fine", "honest")).text


@pytest.mark.nightly  # tests/unit/browser/test_limits.py chooses the page, and the tests above end one
async def test_a_browser_that_is_too_large_as_a_whole_loses_its_fattest_page(
    make_rooms: MakeRooms, site: Site
) -> None:
    site.paths["/hog"] = html(f"{WORDS}<script>{HOGS['arrays']}</script>")
    site.paths["/fine"] = FINE
    async with make_rooms(f"127.0.0.1:{site.port}", agent_memory_mb=8_000, memory_mb=800) as rooms:
        await browse(rooms, f"{site.url}/fine", "honest")
        with pytest.raises(Unavailable, match="as a whole exceeded its memory limit"):
            async with asyncio.timeout(120):
                while True:
                    await until_it_is_ended(rooms, f"{site.url}/hog")
        for agent_id in ("honest", "victim"):
            assert "all is well" in (await browse(rooms, f"{site.url}/fine", agent_id)).text
