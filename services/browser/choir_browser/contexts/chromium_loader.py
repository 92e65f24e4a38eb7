"""Import Playwright when the engine is first started.

It takes 16 MB and a third of a second, which a service that never browses need not spend. Passed to
`EngineManager` by app.py.
"""

import asyncio
from types import ModuleType

from choir_browser.pages.engine import Engine, LaunchOptions


async def start_chromium(launch: LaunchOptions) -> Engine:
    """Import Playwright and start Chromium; raises Unavailable as `pages.chromium` does."""
    await asyncio.to_thread(_import_chromium)
    # imported already, in a thread: the import takes a third of a second
    from choir_browser.pages import chromium  # noqa: PLC0415

    return await chromium.start_chromium(launch)


def _import_chromium() -> ModuleType:
    from choir_browser.pages import chromium  # noqa: PLC0415

    return chromium
