"""What one agent's page does keeps no other agent waiting for good; by how much it slows, is printed.

Times on a busy machine say little by themselves, so calm and trouble are measured by turns in one run.
"""

import asyncio
import contextlib
import os
import statistics
import time
from collections.abc import AsyncIterator

import pytest

from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_common.errors import ChoirError
from tests.security.browser.hostile import SCRIPTS, WORDS
from tests.security.browser.visiting import MakeRooms, browse
from tests.security.browser.web import Answer, Site, html
from tests.support.nightly import nightly_from

# What works on while its agent is told nothing, and so takes the most from others.
RUNAWAYS = ("endless script", "worker bomb", "fetch flood", "console flood", "alert loop")
# `make nightly` goes on for longer, for figures that say more.
ROUNDS = int(os.environ.get("CHOIR_TEST_RUNAWAY_ROUNDS", "1"))
READS = 4


@contextlib.asynccontextmanager
async def running_away(rooms: BrowserContexts, url: str) -> AsyncIterator[None]:
    """Have one agent visit a page again and again, as many at a time as it may and more."""

    async def visit() -> None:
        while True:
            with contextlib.suppress(ChoirError):
                await browse(rooms, url, "runaway", 30_000)

    visits = [asyncio.create_task(visit()) for _ in range(6)]
    try:
        await asyncio.sleep(3)  # until it is at its worst; the watch may slow it down by then
        yield
    finally:
        for task in visits:
            task.cancel()
        await asyncio.gather(*visits, return_exceptions=True)


async def read_some(rooms: BrowserContexts, url: str) -> list[float]:
    taken = []
    for _ in range(READS):
        start = time.perf_counter()
        page = await browse(rooms, url, "honest", 60_000)
        assert "all is well" in page.text
        taken.append(time.perf_counter() - start)
    return taken


@pytest.mark.parametrize("name", nightly_from(1, RUNAWAYS))
async def test_an_agents_runaway_page_stops_no_other_agent(
    make_rooms: MakeRooms, site: Site, name: str
) -> None:
    site.paths["/never"] = Answer(b"late", delay_s=600)
    site.paths["/runaway"] = html(f"{WORDS}<script>{SCRIPTS[name]}</script><img src='/never'>")
    site.paths["/fine"] = html(f"all is well {WORDS}")
    calm: list[float] = []
    troubled: list[float] = []
    async with make_rooms(f"127.0.0.1:{site.port}") as rooms:
        await read_some(rooms, f"{site.url}/fine")
        for _ in range(ROUNDS):
            calm += await read_some(rooms, f"{site.url}/fine")
            async with running_away(rooms, f"{site.url}/runaway"):
                troubled += await read_some(rooms, f"{site.url}/fine")
    before, beside = statistics.median(calm), statistics.median(troubled)
    print(
        f"{name}: alone {before * 1000:.0f} ms, beside it {beside * 1000:.0f} ms: "
        f"{beside / before:.2f} times; at worst {max(troubled) * 1000:.0f} ms"
    )
