"""Import Playwright when the engine is first started.

It takes 16 MB and a third of a second, which a service that never browses need not spend. Passed to
`EngineManager` by app.py.
"""

import asyncio

from choir_browser.pages.engine import Engine, EngineStarter, LaunchOptions


async def start_chromium(launch: LaunchOptions) -> Engine:
    """Import Playwright and start Chromium; raises Unavailable as `pages.chromium` does."""
    start = await asyncio.to_thread(_import_starter)
    return await start(launch)


def _import_starter() -> EngineStarter:
    from choir_browser.pages import chromium  # noqa: PLC0415 - only a service that browses pays for it

    return chromium.start_chromium
