"""A browser to act in, and how tests find the number of what they press."""

import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import psutil

from choir_browser.app import open_contexts
from choir_browser.contexts.browser_contexts import BrowserContexts
from choir_browser.settings import BrowserSettings
from choir_common.clock import SystemClock
from choir_common.egress.addresses import parse_allowlist
from choir_common.egress.dialer import Dialer
from choir_common.wire.browser import Action, BrowseRequest, BrowseResponse, OpenPage
from tests.security.browser.web import Site, open_site


@dataclass
class Surfer:
    """An agent at its browser; remembers the page it saw last."""

    rooms: BrowserContexts
    site: Site
    agent_id: str = "main"
    lane: str = "edge"
    text: str = ""

    async def do(self, action: Action, within_s: float = 60) -> BrowseResponse:
        """Do an action and remember the text that came of it."""
        seen = await self.rooms.browse(
            BrowseRequest(
                agent_id=self.agent_id,
                call_id="c",
                lane=self.lane,
                action=action,
                timeout_ms=int(within_s * 1000),
            )
        )
        self.text = seen.text or self.text
        return seen

    async def open(self, path: str) -> BrowseResponse:
        """Open a page of the site."""
        return await self.do(OpenPage(url=self.site.url + path))

    def ref(self, words: str) -> int:
        """Find the number of a link, button or field on the page seen last, by its words."""
        found = re.search(rf'\[(\d+): [^\]"]*"?{re.escape(words)}', self.text)
        assert found, f"nothing is called {words!r} in {self.text}"
        return int(found[1])

    def bytes_of(self, page: BrowseResponse) -> bytes:
        """Take the file that came of an action."""
        assert page.blob is not None
        return b"".join(self.rooms.blobs.fetch(page.blob.blob_id))


@contextlib.asynccontextmanager
async def surfing(settings: BrowserSettings | None = None) -> AsyncIterator[Surfer]:
    """Open a browser that may visit a site of its own."""
    async with open_site() as site:
        dialler = Dialer(parse_allowlist(f"127.0.0.1:{site.port}", "CHOIR_BROWSER_ALLOW"))
        settings = settings or BrowserSettings()
        async with open_contexts(settings, dialler, SystemClock()) as (rooms, _):
            yield Surfer(rooms, site)


def kill_chromium(root: psutil.Process) -> None:
    """Kill every process of Chromium below a process; the first one takes others with it."""
    for child in named_below(root, "chrom"):
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def kill_renderers() -> None:
    """Kill every process below this one that shows a page."""
    for child, command in commands_below(psutil.Process(), "chrom"):
        if "--type=renderer" in command:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def commands_below(root: psutil.Process, *names: str) -> list[tuple[psutil.Process, list[str]]]:
    """List the same processes as `named_below`, each with its command line."""
    found = []
    for child in named_below(root, *names):
        with contextlib.suppress(psutil.NoSuchProcess):  # ended meanwhile, or a zombie
            found.append((child, child.cmdline()))
    return found


def named_below(root: psutil.Process, *names: str) -> list[psutil.Process]:
    """List the processes below `root` with one of these in their names.

    Not those that report crashes: init adopts orphans, and they end by themselves.
    """
    found = []
    for child in root.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it may end while it is looked at
            name = child.name()
            if "crashpad" not in name and any(one in name for one in names):
                found.append(child)
    return found
