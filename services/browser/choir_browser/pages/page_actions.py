"""Actions in a tab: input as real mouse and keyboard events, screenshots, crashing. Called by context.py."""

import asyncio

from playwright.async_api import FloatRect

from choir_browser.blobs.store import BlobStore
from choir_browser.pages.filenames import host_name
from choir_browser.pages.script import (
    ClickTarget,
    ElementBox,
    FocusResult,
    PageContent,
    ScriptResult,
)
from choir_browser.pages.tab import EFFECT_TIMEOUT_S, NEW_TAB_TIMEOUT_S, Tab
from choir_common.errors import Conflict, NotFound
from choir_common.wire.browser import (
    BrowseResponse,
    Click,
    Screenshot,
    Scroll,
    SelectOption,
    TypeText,
)

# Taller screenshots cost a renderer hundreds of megabytes and are of no use.
MAX_HEIGHT = 8_000
CRASH_TIMEOUT_S = 2.0


async def click(tab: Tab, action: Click) -> None:
    """Click an element and wait for the effect; raises Conflict if another element covers it."""
    with tab.track_requests():
        point = await click_element(tab, action.ref)
        await tab.wait_for_effect(NEW_TAB_TIMEOUT_S if point.tab else EFFECT_TIMEOUT_S)


async def click_element(tab: Tab, ref: int) -> ClickTarget:
    """Click an element without waiting; return what was clicked."""
    point = await tab.script.call(ClickTarget, "point", ref)
    if not point.by:
        await tab.page.mouse.click(point.x, point.y)
    elif point.tick:
        # A checkbox covered by its own decoration, which is common, is clicked by script.
        await tab.script.call(ScriptResult, "press", ref)
    else:
        raise Conflict(
            f"{ref} is covered by {point.by!r}: close that first, or scroll. `screenshot` shows it."
        )
    return point


async def type_text(tab: Tab, action: TypeText) -> None:
    """Fill in a field; with `submit`, press Enter and wait for the next page."""
    focus = await tab.script.call(FocusResult, "focus", action.ref, action.text)
    if not focus.done:
        await _replace(tab, action.text)
    if action.submit:
        with tab.track_requests():
            await tab.page.keyboard.press("Enter")
            await tab.wait_for_effect()
        return
    field = await tab.script.call(ScriptResult, "held", action.ref)
    tab.add_note(f"Field {action.ref} now contains {field.value!r}.")


async def select_options(tab: Tab, action: SelectOption) -> None:
    """Select options of a list and wait for the page's reaction."""
    with tab.track_requests():
        result = await tab.script.call(ScriptResult, "select", action.ref, list(action.options))
        tab.add_note(f"List {action.ref} now has {result.value!r} chosen.")
        await tab.wait_for_effect()


async def scroll(tab: Tab, action: Scroll) -> None:
    """Scroll, and wait until the page has rendered."""
    with tab.track_requests():
        await tab.script.call(ScriptResult, "scroll", action.to)
        await tab.wait_for_effect()


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


async def crash_page(tab: Tab) -> None:
    """Crash a page that does not respond, after an action in it failed or timed out.

    The caller closes the tab next. That alone is not enough: a loop of dialogs may continue for seconds,
    and Chromium shows them one after the other while all other tabs wait.
    """
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


async def _replace(tab: Tab, text: str) -> None:
    """Replace the selection by a text."""
    if text:
        await tab.page.keyboard.insert_text(text)
    else:
        await tab.page.keyboard.press("Delete")


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
