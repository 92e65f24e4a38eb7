"""Launcher of Chromium, with a late import of Playwright.

It takes 16 MB and a third of a second, which a service that never browses need not spend.
"""

import asyncio
from types import ModuleType

from choir_browser.pages.engine import Engine, LaunchOptions


class ChromiumLauncher:
    """Launcher that imports Playwright for the first engine."""

    async def start(self, launch: LaunchOptions) -> Engine:
        """Start Chromium; raises Unavailable as `pages.chromium` does."""
        await asyncio.to_thread(_import_chromium)
        from choir_browser.pages import chromium  # noqa: PLC0415 - imported above, in a thread

        return await chromium.start_chromium(launch)


def _import_chromium() -> ModuleType:
    from choir_browser.pages import chromium  # noqa: PLC0415 - takes a third of a second

    return chromium
