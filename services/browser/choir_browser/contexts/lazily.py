"""Import Playwright when the engine is first started.

It takes 16 MB and a third of a second, which a service that never browses need not spend. Passed to
`EngineKeeper` by app.py.
"""

import asyncio
import importlib
from typing import cast

from choir_browser.pages.port import Engine, EngineStarter, Launch


async def start_chromium(launch: Launch) -> Engine:
    """Import Playwright and start Chromium; raises Unavailable as `pages.chromium` does."""
    module = await asyncio.to_thread(importlib.import_module, "choir_browser.pages.chromium")
    return await cast(EngineStarter, module.start_chromium)(launch)
