"""Take a screenshot of a tab and store it as a blob for control. Called by context.py."""

from playwright.async_api import FloatRect

from choir_browser.blobs.store import BlobStore
from choir_browser.pages.filenames import host_name
from choir_browser.pages.script import ElementBox, PageContent
from choir_browser.pages.tab import Tab
from choir_common.errors import NotFound
from choir_common.wire.browser import BrowseResponse, Screenshot

# Taller screenshots cost a renderer hundreds of megabytes and are of no use.
MAX_HEIGHT = 8_000


async def take_screenshot(
    tab: Tab, action: Screenshot, blobs: BlobStore, timeout_s: float
) -> BrowseResponse:
    """Take a PNG of the visible area, of the whole page, or of one element."""
    if not tab.url:
        raise NotFound("No page is open in this tab: `open` one.")
    clip = await _clip(tab, action)
    png = await tab.page.screenshot(
        type="png", full_page=clip is not None, clip=clip, timeout=timeout_s * 1000
    )
    draft = blobs.new_blob()
    draft.write(png)
    blob = blobs.store(draft, f"{host_name(tab.url)}.png", "image/png")
    return tab.make_answer().model_copy(update={"blob": blob})


async def _clip(tab: Tab, action: Screenshot) -> FloatRect | None:
    if action.ref is None and not action.full:
        return None
    page = await tab.script.call(
        PageContent, "read", {"whole": True, "seen": True, "short": 0, "share": 1}
    )
    if action.ref is not None:
        box = await tab.script.call(ElementBox, "box", action.ref)
        return FloatRect(
            x=max(box.x, 0), y=box.y + page.y, width=box.width, height=min(box.height, MAX_HEIGHT)
        )
    width = tab.page.viewport_size["width"] if tab.page.viewport_size else 1280
    if page.height > MAX_HEIGHT:
        tab.add_note(
            f"The page is {page.height:.0f} pixels high; the screenshot ends at {MAX_HEIGHT}."
        )
    return FloatRect(x=0, y=0, width=width, height=max(1, min(page.height, MAX_HEIGHT)))
