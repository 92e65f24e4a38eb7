"""Input actions in a tab, performed as real mouse and keyboard events. Called by context.py."""

from choir_browser.pages.script import ClickTarget, FocusResult, ScriptResult
from choir_browser.pages.tab import Tab
from choir_common.errors import Conflict
from choir_common.wire.browser import Click, Scroll, SelectOption, TypeText


async def click(tab: Tab, action: Click) -> None:
    """Click an element and wait for the effect; raises Conflict if another element covers it."""
    with tab.track_requests():
        await click_element(tab, action.ref)
        await tab.wait_for_effect()


async def click_element(tab: Tab, ref: int) -> None:
    """Click an element without waiting."""
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


async def type_text(tab: Tab, action: TypeText) -> None:
    """Fill in a field; with `submit`, press Enter and wait for the next page."""
    focused = await tab.script.call(FocusResult, "focus", action.ref, action.text)
    if not focused.done:
        await _replace(tab, action.text)
    if action.submit:
        with tab.track_requests():
            await tab.page.keyboard.press("Enter")
            await tab.wait_for_effect()
        return
    field = await tab.script.call(ScriptResult, "held", action.ref)
    tab.add_note(f"Field {action.ref} now holds {field.value!r}.")


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


async def _replace(tab: Tab, text: str) -> None:
    """Replace the selection by a text."""
    if text:
        await tab.page.keyboard.insert_text(text)
    else:
        await tab.page.keyboard.press("Delete")
