"""A browser that died or hangs is replaced, the agent is told, and nothing of it is left behind."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator

import psutil
import pytest
import pytest_asyncio

from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_common.errors import NotFound, Unavailable
from choir_common.wire.browser import ReadPage
from tests.security.browser.web import Answer, Site, html
from tests.service.browser.acting import (
    Surfer,
    kill_chromium,
    kill_renderers,
    named_below,
    surfing,
)
from tests.support.chromium import needs_chromium

pytestmark = [needs_chromium, pytest.mark.asyncio(loop_scope="module")]

ROUNDS = 15 if os.environ.get("CHOIR_TEST_EVERY_CUT") == "1" else 1
PAGE = html("<p>a page to read</p>", "Page")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Surfer]:
    async with surfing() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def surfer(shared: Surfer) -> AsyncIterator[Surfer]:
    """An agent that has no context yet; a browser that a test killed was replaced by its end."""
    shared.site.paths.clear()
    yield Surfer(shared.rooms, shared.site)
    for agent_id in ("main", "other"):
        await shared.rooms.close(agent_id)


def browsers() -> list[psutil.Process]:
    """List Chromium and its driver below this process."""
    return named_below(psutil.Process(), "chrom", "node")


async def find_it_dead(rooms: BrowserContexts, site: Site) -> None:
    """Let another agent browse until it can: what has died is known by then."""
    other = Surfer(rooms, site, agent_id="other")
    async with asyncio.timeout(120):
        while True:
            try:
                await other.open("/")
                return
            except Unavailable:
                continue


async def test_an_agent_whose_browser_died_between_two_calls_is_told(surfer: Surfer) -> None:
    kind = "Content-Type: text/html"
    surfer.site.paths["/"] = PAGE
    surfer.site.paths["/set"] = Answer(b"set", headers=("Set-Cookie: who=me; Path=/", kind))
    assert not (await surfer.open("/set")).notes
    kill_chromium(psutil.Process())
    await find_it_dead(surfer.rooms, surfer.site)
    with pytest.raises(NotFound, match=f"its last page was {surfer.site.url}/set"):
        await surfer.do(ReadPage())
    seen = await surfer.open("/")
    assert "a page to read" in seen.text
    assert any("all tabs and cookies are lost" in note for note in seen.notes)
    assert "who=me" not in surfer.site.requests[-1]
    assert not (await surfer.open("/")).notes


async def test_an_agent_whose_page_died_is_told_and_the_next_one_is_read(surfer: Surfer) -> None:
    surfer.site.paths["/"] = PAGE
    await surfer.open("/")
    kill_renderers()
    await find_it_dead(surfer.rooms, surfer.site)
    told = list[str]()
    async with asyncio.timeout(60):
        while True:
            try:
                seen = await surfer.open("/")
                break
            except Unavailable as error:  # it was not known yet
                told.append(error.message)
    assert "a page to read" in seen.text
    assert any("the page crashed" in one for one in (*told, *seen.notes))


async def test_a_browser_that_does_not_end_when_it_is_asked_is_killed() -> None:
    others = {*psutil.Process().children()}  # the driver of the shared browser, too
    async with surfing() as surfer:
        surfer.site.paths["/"] = PAGE
        await surfer.open("/")
        running = [it for it in browsers() if not others & {it, *it.parents()}]
        assert len(running) > 2
        for child in running:
            child.send_signal(signal.SIGSTOP)
    _, alive = await asyncio.to_thread(psutil.wait_procs, running, 30)
    assert alive == []


async def test_a_page_that_goes_elsewhere_by_itself_is_read_there_and_can_be_left(
    surfer: Surfer,
) -> None:
    surfer.site.paths["/"] = PAGE
    surfer.site.paths["/there"] = html("<p>where it leads</p>")
    surfer.site.paths["/sends"] = html("<script>onload = () => location = '/there'</script>")
    surfer.site.paths["/restless"] = html("<meta http-equiv=refresh content=0><p>again</p>")
    for _ in range(ROUNDS):
        assert "where it leads" in (await surfer.open("/sends")).text
        with contextlib.suppress(Unavailable):  # it may never hold still to be read
            await surfer.open("/restless")
        assert "a page to read" in (await surfer.open("/")).text
