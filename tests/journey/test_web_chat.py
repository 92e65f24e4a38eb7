"""The chat of the web page in a real Chromium: corrections, voice, days, unread marks and notifications.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
`test_web_page.py` has the basics.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from tests.support.chromium import needs_chromium
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import Cockpit, running_cockpit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit() -> AsyncIterator[Cockpit]:
    async with running_cockpit() as made:
        yield made


async def ask(cockpit: Cockpit, text: str) -> StreamedCall:
    """Type a message and send it; return the model's call."""
    await cockpit.page.get_by_label("Write a message").fill(text)
    await cockpit.page.keyboard.press("Enter")
    return await cockpit.model.next_call()


def message(cockpit: Cockpit, text: str) -> Locator:
    return cockpit.page.locator(".message").filter(has_text=text)


def last_words(call: StreamedCall) -> str:
    return str(call.body["messages"][-1]["content"])


async def test_a_message_is_corrected_by_a_new_one_and_stays(cockpit: Cockpit) -> None:
    (await ask(cockpit, "Trains to Lyon")).end("There are 42.")
    await expect(message(cockpit, "There are 42.")).to_be_visible()
    field = cockpit.page.get_by_label("Write a message")
    await field.fill("half a thought")
    await message(cockpit, "Trains to Lyon").hover()
    await message(cockpit, "Trains to Lyon").get_by_role("button", name="Edit message").click()
    await expect(field).to_have_value("Trains to Lyon")
    await expect(cockpit.page.get_by_text("Sent as a correction")).to_be_visible()
    await cockpit.check("chat-correcting")
    await cockpit.page.keyboard.press("Escape")
    await expect(field).to_have_value("half a thought")
    await field.fill("")
    for now, was in (("Trains to Turin", "Trains to Lyon"), ("Trains to Milan", "Trains to Turin")):
        await field.press("ArrowUp")
        await expect(field).to_have_value(was)
        call = await ask(cockpit, now)
        said = last_words(call)
        assert "The user corrected an earlier message" in said and was in said and now in said
        call.end(f"{now}: 27.")
        await expect(message(cockpit, f"{now}: 27.")).to_be_visible()
    for _ in range(2):
        for text, state in (("Lyon", "yes"), ("Turin", "yes"), ("Milan", None)):
            own = message(cockpit, f"Trains to {text}").and_(cockpit.page.locator(".user"))
            await expect(own).to_have_count(1)
            if state:
                await expect(own).to_have_attribute("data-corrected", state)
                await expect(own.get_by_text("Corrected below")).to_be_visible()
                await expect(own.get_by_role("button", name="Edit message")).to_have_count(0)
            else:
                await expect(own.get_by_text("Correction")).to_have_count(1)
                await expect(own.get_by_role("button", name="Edit message")).to_have_count(1)
        await cockpit.page.reload()
        await expect(cockpit.page.locator(".message").first).to_be_visible()
    await cockpit.check("chat-corrected")


async def test_the_last_message_is_asked_again(cockpit: Cockpit) -> None:
    again = cockpit.page.get_by_role("button", name="Ask again")
    await expect(again).to_have_count(1)
    await expect(again).to_have_attribute("title", "Ask again: sends your message once more")
    await message(cockpit, "Trains to Milan: 27.").hover()
    await again.click()
    call = await cockpit.model.next_call()
    assert last_words(call).endswith("Trains to Milan")
    call.end("Still 27.")
    await expect(message(cockpit, "Still 27.")).to_be_visible()
    await expect(again).to_have_count(1)
    await cockpit.page.get_by_label("Write a message").fill("/help")
    await cockpit.page.keyboard.press("Enter")
    await expect(message(cockpit, "/status")).to_be_visible()
