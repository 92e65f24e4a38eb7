"""Take a screenshot of a tab and store it as a blob for control. Called by room.py."""

from playwright.async_api import FloatRect

from choir_browser.blobs.shelf import Shelf
from choir_browser.pages.filenames import host_of
from choir_browser.pages.script import Box, Reading
from choir_browser.pages.tab import Tab
from choir_common.errors import NotFound
from choir_common.wire.browsing import BrowsedPage, Screenshot

# Taller screenshots cost a renderer hundreds of megabytes and are of no use.
MAX_HEIGHT = 8_000


async def take_picture(tab: Tab, action: Screenshot, shelf: Shelf, timeout_s: float) -> BrowsedPage:
    """Take a PNG of the visible area, of the whole page, or of one element."""
    if not tab.url:
        raise NotFound("No page is open in this tab: `open` one.")
    clip = await _clip(tab, action)
    png = await tab.page.screenshot(
        type="png", full_page=clip is not None, clip=clip, timeout=timeout_s * 1000
    )
    draft = shelf.draft()
    draft.write(png)
    blob = shelf.keep(draft, f"{host_of(tab.url)}.png", "image/png")
    return tab.answer().model_copy(update={"blob": blob})


async def _clip(tab: Tab, action: Screenshot) -> FloatRect | None:
    if action.ref is None and not action.full:
        return None
    page = await tab.script.ask(
        Reading, "read", {"whole": True, "seen": True, "short": 0, "share": 1}
    )
    if action.ref is not None:
        box = await tab.script.ask(Box, "box", action.ref)
        return FloatRect(
            x=max(box.x, 0), y=box.y + page.y, width=box.width, height=min(box.height, MAX_HEIGHT)
        )
    width = tab.page.viewport_size["width"] if tab.page.viewport_size else 1280
    if page.height > MAX_HEIGHT:
        tab.note(f"The page is {page.height:.0f} pixels high; the picture ends at {MAX_HEIGHT}.")
    return FloatRect(x=0, y=0, width=width, height=max(1, min(page.height, MAX_HEIGHT)))
