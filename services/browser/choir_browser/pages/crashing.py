"""Crash a page that does not let go. Called by room.py when an action in it did not end.

A tab that is only closed may go on for seconds with a loop of dialogs, which Chromium shows one after the
other while all other tabs wait.
"""

import asyncio

from choir_browser.pages.tab import Tab

CRASHED_WITHIN_S = 2.0


async def crash(tab: Tab) -> None:
    """End all that a page does, here and now; the tab is to be closed next."""
    # the command itself is never answered: the page is gone
    asking = asyncio.create_task(tab.line.send("Page.crash"))
    gone = asyncio.create_task(tab.crashed.wait())
    try:
        await asyncio.wait(
            {asking, gone}, timeout=CRASHED_WITHIN_S, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        for task in (asking, gone):
            task.cancel()
        await asyncio.gather(asking, gone, return_exceptions=True)
