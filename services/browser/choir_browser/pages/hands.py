"""Input actions in a tab, performed as real mouse and keyboard events. Called by room.py."""

from choir_browser.pages.script import Answer, Focused, Point
from choir_browser.pages.tab import Tab
from choir_common.errors import Conflict
from choir_common.wire.browsing import Click, Scroll, SelectOption, TypeText


async def click(tab: Tab, action: Click) -> None:
    """Click an element and wait for the effect; raises Conflict if another element covers it."""
    with tab.listening():
        await press(tab, action.ref)
        await tab.follow()


async def press(tab: Tab, ref: int) -> None:
    """Click an element without waiting."""
    point = await tab.script.ask(Point, "point", ref)
    if not point.by:
        await tab.page.mouse.click(point.x, point.y)
    elif point.tick:
        # A checkbox covered by its own decoration, which is common, is clicked by script.
        await tab.script.ask(Answer, "press", ref)
    else:
        raise Conflict(
            f"{ref} is covered by {point.by!r}: close that first, or scroll. `screenshot` shows it."
        )


async def type_text(tab: Tab, action: TypeText) -> None:
    """Fill in a field; with `submit`, press Enter and wait for the next page."""
    focused = await tab.script.ask(Focused, "focus", action.ref, action.text)
    if not focused.done:
        await _replace(tab, action.text)
    if action.submit:
        with tab.listening():
            await tab.page.keyboard.press("Enter")
            await tab.follow()
        return
    held = await tab.script.ask(Answer, "held", action.ref)
    tab.note(f"Field {action.ref} now holds {held.value!r}.")


async def select(tab: Tab, action: SelectOption) -> None:
    """Select options of a list and wait for the page's reaction."""
    with tab.listening():
        chosen = await tab.script.ask(Answer, "select", action.ref, list(action.options))
        tab.note(f"List {action.ref} now has {chosen.value!r} chosen.")
        await tab.follow()


async def scroll(tab: Tab, action: Scroll) -> None:
    """Scroll, and wait until the page has rendered."""
    with tab.listening():
        await tab.script.ask(Answer, "scroll", action.to)
        await tab.follow()


async def _replace(tab: Tab, text: str) -> None:
    """Replace the selection by a text."""
    if text:
        await tab.page.keyboard.insert_text(text)
    else:
        await tab.page.keyboard.press("Delete")
