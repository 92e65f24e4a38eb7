"""Crash a page that does not respond. Called by context.py when an action in it failed or timed out.

Closing the tab is not enough: a loop of dialogs may continue for seconds, and Chromium shows them
one after the other while all other tabs wait.
"""

import asyncio

from choir_browser.pages.tab import Tab

CRASH_TIMEOUT_S = 2.0


async def crash_page(tab: Tab) -> None:
    """Crash a page's process; the caller closes the tab next."""
    # The command gets no response: the page is gone.
    command = asyncio.create_task(tab.cdp.send("Page.crash"))
    crash = asyncio.create_task(tab.crashed.wait())
    try:
        await asyncio.wait(
            {command, crash}, timeout=CRASH_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for task in (command, crash):
            task.cancel()
        await asyncio.gather(command, crash, return_exceptions=True)
