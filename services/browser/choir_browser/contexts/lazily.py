"""Import the heavy modules of `pages` at the moment they are first needed, and nowhere else.

Playwright and trafilatura take 26 MB and half a second, which a worker that is never asked to browse
need not spend. Called by keeper.py and rooms.py.
"""

import asyncio
import importlib
from typing import cast

from choir_browser.pages.port import Engine, EngineStarter, Launch, RawPage, Readable


async def start_chromium(launch: Launch) -> Engine:
    """Import Playwright and start Chromium; raises Unavailable as `pages.chromium` does."""
    module = await asyncio.to_thread(importlib.import_module, "choir_browser.pages.chromium")
    return await cast(EngineStarter, module.start_chromium)(launch)


def readable(page: RawPage) -> str:
    """Import trafilatura and give the page's main text; blocking, for a thread."""
    module = importlib.import_module("choir_browser.pages.words")
    return cast(Readable, module.readable)(page)
