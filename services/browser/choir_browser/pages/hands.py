"""Press, type and choose in a tab, as a person's mouse and keys would. Called by room.py."""

from choir_browser.pages.script import Answer, Focused, Point
from choir_browser.pages.tab import Tab
from choir_common.errors import Conflict
from choir_common.wire.browsing import Click, Scroll, SelectOption, TypeText


async def click(tab: Tab, action: Click) -> None:
    """Press something and wait for what comes of it. Raises Conflict when another thing lies over it."""
    with tab.listening():
        await press(tab, action.ref)
        await tab.follow()


async def press(tab: Tab, ref: int) -> None:
    """Press something, and wait for nothing."""
    point = await tab.script.ask(Point, "point", ref)
    if not point.by:
        await tab.page.mouse.click(point.x, point.y)
    elif point.tick:
        # a box that is painted by something over it: everyone's pages do that
        await tab.script.ask(Answer, "press", ref)
    else:
        raise Conflict(
            f"{ref} is covered by {point.by!r}: close that first, or scroll. `screenshot` shows it."
        )


async def type_text(tab: Tab, action: TypeText) -> None:
    """Fill in a field; with `submit` wait for where that leads."""
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
    """Choose options and wait for what the page makes of it."""
    with tab.listening():
        chosen = await tab.script.ask(Answer, "select", action.ref, list(action.options))
        tab.note(f"List {action.ref} now has {chosen.value!r} chosen.")
        await tab.follow()


async def scroll(tab: Tab, action: Scroll) -> None:
    """Scroll, and wait for what the page shows there."""
    with tab.listening():
        await tab.script.ask(Answer, "scroll", action.to)
        await tab.follow()


async def _replace(tab: Tab, text: str) -> None:
    """Put a text in place of what is selected."""
    if text:
        await tab.page.keyboard.insert_text(text)
    else:
        await tab.page.keyboard.press("Delete")
