"""Import the heavy modules of `pages` at the moment they are first needed, and nowhere else.

Playwright takes 16 MB and a third of a second, which a worker that is never asked to browse need not
spend. Called by keeper.py.
"""

import asyncio
import importlib
from typing import cast

from choir_browser.pages.port import Engine, EngineStarter, Launch


async def start_chromium(launch: Launch) -> Engine:
    """Import Playwright and start Chromium; raises Unavailable as `pages.chromium` does."""
    module = await asyncio.to_thread(importlib.import_module, "choir_browser.pages.chromium")
    return await cast(EngineStarter, module.start_chromium)(launch)
