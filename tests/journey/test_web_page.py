"""The web page in a real Chromium: sign in, chat, files, a restart while it is open, and hostile texts.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from PIL import Image, ImageDraw
from playwright.async_api import Browser, BrowserContext, Page, Route, expect

from tests.support.chromium import needs_chromium
from tests.support.stack import EmbeddedStack, running_stack_in_thread
from tests.support.streaming_model import StreamedCall, StreamingModel, run_streaming
from tests.support.web_cockpit import EVERY_LOOK, hostile_texts
from tests.support.web_page import (
    PATIENCE_MS,
    PHONE,
    UNUSED_S,
    WebTab,
    open_context,
    open_tab,
    running_chromium,
)
from tests.support.xss_corpus import LINKS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
expect.set_options(timeout=PATIENCE_MS)
ANSWER = """Here is what I found.

## The plan

1. **Collect** the numbers
2. Fit $y = a x + b$ to them
3. Report the error: $$\\epsilon = \\sqrt{\\frac{1}{n} \\sum_i (y_i - \\hat y_i)^2}$$

```python
def fit(points: list[tuple[float, float]]) -> float:
    # the mean of all slopes
    return sum(y / x for x, y in points) / len(points)
```

| city | trains | share |
|---|---:|---:|
| Lyon | 42 | 61 % |
| Turin | 27 | 39 % |

> It costs $5 to $10, see [the table](https://example.org/table).
"""


def a_picture() -> bytes:
    """Return a PNG of five bars."""
    image = Image.new("RGB", (480, 240), "#f3f1ec")
    draw = ImageDraw.Draw(image)
    for number, height in enumerate((90, 150, 60, 190, 120)):
        left = 50 + number * 80
        draw.rectangle((left, 220 - height, left + 50, 220), fill="#2f6f6a")
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


PICTURE = a_picture()
WIDE = "\n".join(f"|{f' {cell} of nine |' * 9}" for cell in ("Title", "---", "Value")).replace(
    "--- of nine", "---"
)


@dataclass
class Place:
    """A stack with the model of its agent, and a browser profile that is signed in."""

    stack: EmbeddedStack
    model: StreamingModel
    browser: Browser
    context: BrowserContext
    tab: WebTab

    @property
    def page(self) -> Page:
        return self.tab.page

    async def ask(self, text: str) -> StreamedCall:
        """Type a message and send it; return the model's call."""
        await self.page.get_by_label("Write a message").fill(text)
        await self.page.keyboard.press("Enter")
        return await self.model.next_call()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    async with run_streaming() as model, running_chromium() as browser:

        def prepare(home: Path) -> None:
            path = home / "config.json"
            config: dict[str, Any] = json.loads(path.read_text())
            config["models"] = {"default": {"model": "m", "endpoint": model.endpoint}}
            config["summary_timeout_ms"] = 0
            path.write_text(json.dumps(config))

        async with running_stack_in_thread(prepare=prepare) as stack:
            context = await open_context(browser)
            tab = await open_tab(context, f"{stack.url}/")
            yield Place(stack, model, browser, context, tab)


async def test_a_browser_without_a_session_is_asked_to_sign_in(place: Place) -> None:
    await expect(place.page.get_by_text("choirctl web")).to_be_visible()
    assert place.page.url == f"{place.stack.url}/web/"
    await place.tab.check_access()
    await place.tab.shoot("sign-in")
    await place.page.get_by_label("Operator token").fill("wrong")
    await place.page.get_by_role("button", name="Sign in").click()
    await expect(place.page.get_by_role("alert")).to_have_text("The operator token is wrong.")


async def test_a_page_whose_files_did_not_all_arrive_loads_itself_again(place: Place) -> None:
    lost: list[str] = []

    async def lose_once(route: Route) -> None:
        path = urlsplit(route.request.url).path
        if path.endswith(("/app/main.js", "/locales/en.json")) and path not in lost:
            lost.append(path)
            await route.fulfill(status=503)
        else:
            await route.continue_()

    await place.context.route("**/assets/**", lose_once)
    await place.page.reload()
    await expect(place.page.get_by_text("choirctl web")).to_be_visible()
    assert len(lost) == 2
    await place.context.unroute("**/assets/**")
    assert place.tab.failures == []


async def test_a_link_signs_in_once_and_leaves_no_trace(place: Place) -> None:
    link = (await asyncio.to_thread(place.stack.run, "web")).strip()
    await place.page.goto(link)
    await expect(place.page.get_by_text("Talk with main")).to_be_visible()
    assert "link=" not in place.page.url
    assert place.page.url.startswith(f"{place.stack.url}/web/#/")
    [cookie] = await place.context.cookies()
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert await place.page.evaluate("document.cookie") == ""
    for log in (place.stack.home / "logs").glob("*.log"):
        assert link.partition("#link=")[2] not in log.read_text(errors="replace")
    await place.tab.shoot("welcome")


async def test_a_reply_appears_while_it_is_written_with_code_formulas_and_tables(
    place: Place,
) -> None:
    call = await place.ask("Fit a line to my numbers")
    # this browser asks for less motion
    await expect(place.page.locator(".dots i").first).to_have_css("animation-name", "none")
    call.say("Here is **what,**")
    await expect(place.page.locator(".draft strong")).to_have_text("what,")
    await expect(place.page.get_by_role("button", name="Stop the answer")).to_be_visible()
    call.cut()
    again = await place.model.next_call()
    again.end(ANSWER)
    answer = place.page.locator(".message.agent:not(.draft)")
    await expect(answer.locator(".katex")).to_have_count(2)
    # else a formula could be painted over another message, such as a request for approval
    await expect(answer).to_have_css("contain", "paint")
    await expect(answer.locator(".hl-keyword").first).to_have_text("def")
    await expect(answer.get_by_role("link")).to_have_attribute(
        "rel", "noopener noreferrer nofollow"
    )
    await expect(answer.locator("td").first).to_have_text("Lyon")
    await expect(place.page.locator(".draft")).to_have_count(0)
    await place.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await answer.get_by_role("button", name="Copy", exact=True).click()
    copied = await place.page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("def fit(")
    if EVERY_LOOK:  # the test on a phone looks at the chat, too
        await place.tab.check_access()
    await place.tab.shoot("answer")
    await place.tab.check()


async def test_files_go_both_ways_and_pictures_are_shown(place: Place) -> None:
    file = {"name": "chart.png", "mimeType": "image/png", "buffer": PICTURE}
    await place.page.locator("input[type=file]").set_input_files(file)
    await expect(place.page.locator(".chosen .size")).not_to_have_text("uploading…")
    call = await place.ask("What is in this picture?")
    picture = place.page.locator(".message.user .picture img")
    await expect(picture).to_have_js_property("naturalWidth", 480)
    workspace = next((place.stack.home / "workspaces").iterdir())
    send_dir = workspace / ".choirtmp" / "send"
    (send_dir / "result.png").write_bytes(PICTURE)
    (send_dir / "evil.svg").write_text(
        "<svg xmlns='http://www.w3.org/2000/svg' onload='broken=1'/>"
    )
    files = [{"path": f".choirtmp/send/{name}"} for name in ("result.png", "evil.svg")]
    arguments = json.dumps({"text": "Here it is.", "files": files})
    function = {"name": "choir_message_send", "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    call.write({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]})
    call.end()
    (await place.model.next_call()).end("A chart.")
    sent = place.page.locator(".message.agent").filter(has_text="Here it is.")
    await expect(sent.locator(".picture img")).to_have_js_property("naturalWidth", 480)
    async with place.page.expect_download() as downloading:
        await sent.get_by_role("button", name="evil.svg").click()
    assert (await downloading.value).suggested_filename == "evil.svg"
    [stored] = [p for p in place.tab.requests if "/files/" in p and "/messages/" not in p][-1:]
    token = stored.rpartition("/")[2]
    async with httpx2.AsyncClient(transport=_socket(place.stack), base_url="http://c") as client:
        uploaded = await client.get(f"/v1/dms/console/files/{token}")
    assert uploaded.content == PICTURE
    await place.tab.shoot("files")
    assert uploaded.headers["content-disposition"].startswith("attachment")
    await place.tab.check()


async def test_escape_stops_a_reply_and_a_draft_of_the_user_survives_a_reload(
    place: Place,
) -> None:
    call = await place.ask("Tell me a long story")
    call.say("Once upon,")
    await expect(place.page.locator(".draft")).to_contain_text("Once upon,")
    await place.page.keyboard.press("Escape")
    async with asyncio.timeout(PATIENCE_MS / 1000):
        await call.left.wait()
    await expect(place.page.get_by_text("I stopped here, as you asked.")).to_be_visible()
    await place.page.get_by_label("Write a message").fill("not sent yet")
    await place.page.reload()
    await expect(place.page.get_by_label("Write a message")).to_have_value("not sent yet")
    await expect(place.page.get_by_text("I stopped here, as you asked.")).to_have_count(1)
    await expect(place.page.locator(".message.user .picture img")).to_be_visible()


async def test_a_message_outlives_a_kill_of_the_gateway_and_is_answered_once(place: Place) -> None:
    await place.stack.kill("gateway")
    call = await place.ask("Are you there, gateway?")
    call.end("Yes, after gateway.")
    for _ in range(2):
        await expect(place.page.get_by_text("Yes, after gateway.")).to_have_count(1)
        await expect(place.page.get_by_text("Are you there, gateway?")).to_have_count(1)
        await place.page.reload()


async def test_a_phone_in_the_dark_shows_all_of_it_in_german(place: Place) -> None:
    (await place.ask("Compare them in one table")).end(WIDE)
    state = await place.context.storage_state()
    context = await open_context(
        place.browser,
        storage_state=state,
        viewport=PHONE,
        color_scheme="dark",
        locale="de-DE",
        has_touch=True,
    )
    tab = await open_tab(context, f"{place.stack.url}/web/")
    await expect(tab.page.get_by_placeholder("Nachricht schreiben")).to_be_visible()
    await expect(tab.page.get_by_text("Yes, after gateway.")).to_be_visible()
    table = tab.page.get_by_role("group", name="Tabelle").last
    await expect(table.get_by_role("columnheader")).to_have_count(9)
    await tab.check_width()
    # the table scrolls in its own box, by keyboard as well
    await table.focus()
    await tab.page.keyboard.press("ArrowRight")
    await tab.page.wait_for_function("it => it.scrollLeft > 0", arg=await table.element_handle())
    await tab.check_access()
    await tab.shoot("phone-dark")
    await tab.page.locator(".messages").evaluate("it => it.scrollTop = 0")
    await tab.shoot("phone-dark-answer")
    await tab.page.get_by_label("Gespräche und Einstellungen zeigen").click()
    await expect(tab.page.get_by_role("link", name="main")).to_be_in_viewport()
    await tab.shoot("phone-dark-sidebar")
    await tab.check()
    await context.close()


async def test_an_approval_is_a_card_whose_button_decides(place: Place) -> None:
    call = await place.ask("Remember more events")
    arguments = json.dumps({"patch": {"event_window": 90}, "reason": "to remember more"})
    function = {"name": "choir_propose_config_change", "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": "c2", "type": "function", "function": function}]}
    call.write({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]})
    call.end()
    card = place.page.locator(".message .card")
    await expect(card).to_contain_text("event_window")
    await place.tab.shoot("approval")
    await card.get_by_role("button", name="Reject").click()
    await expect(card).to_have_count(0)
    (await place.model.next_call()).end("I leave it.")
    await expect(place.page.get_by_text("I leave it.")).to_be_visible()


async def test_hostile_texts_names_and_labels_run_nothing(place: Place) -> None:
    texts = list(dict.fromkeys((*hostile_texts(3), *LINKS)))
    assert len(texts) >= 80
    connection = await asyncpg.connect(
        place.stack.dsn, password=place.stack.secret("postgres-admin")
    )
    try:
        for number, text in enumerate(texts):
            name = text[:200].replace("\n", " ")
            button = {"label": text[:60], "data": "x"}
            await connection.execute(
                "INSERT INTO choir_control.outbox (dm, gateway, agent_id, kind, text, at, status, buttons) "
                "VALUES ('console', 'console', 'main', $1, $2, clock_timestamp(), 'delivered', $3)",
                ("answer", "notice", "report")[number % 3],
                text,
                json.dumps([button]) if number % 5 == 0 else None,
            )
            upload = {"name": name, "kind": "document", "mime": "image/svg+xml", "ref": "console/x"}
            await connection.execute(
                "INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, "
                "closed_at, attachments) VALUES ($1, 'console', $1, 'console', $2, now(), now(), $3)",
                f"in_hostile{number}",
                text,
                json.dumps([upload]),
            )
    finally:
        await connection.close()
    await place.page.reload()
    await expect(place.page.locator(".message").first).to_be_visible()
    # up to the first message of all, so that every text is in the page at once
    messages = place.page.locator(".messages")
    for _ in range(40):
        if await place.page.get_by_text("Fit a line to my numbers").count():
            break
        await messages.evaluate("it => { it.scrollTop = 200; it.scrollTop = 0; }")
        await place.page.wait_for_timeout(50)
    assert await place.page.locator(".message").count() > 2 * len(texts)
    forbidden = (
        "script, iframe, object, embed, form, base, meta, link, style, video, audio, input, svg a"
    )
    assert await messages.locator(forbidden).count() == 0
    addresses = await messages.locator("a").evaluate_all("all => all.map((it) => it.protocol)")
    assert set(addresses) <= {"http:", "https:", "mailto:"} and len(addresses) > 5
    handlers = await messages.evaluate(
        "it => [...it.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()).filter("
        "(name) => name.startsWith('on')).length"
    )
    assert handlers == 0
    await place.tab.check()


async def test_words_are_found_in_the_conversation(place: Place) -> None:
    await place.page.get_by_label("Write a message").blur()
    await place.page.keyboard.press("/")
    await place.page.get_by_role("searchbox").fill("line to my")
    await expect(place.page.get_by_text("1 messages found")).to_be_visible()
    await expect(place.page.locator(".message")).to_have_count(1)
    await place.page.keyboard.press("Escape")
    await expect(place.page.get_by_role("searchbox")).to_have_count(0)


@pytest.mark.nightly
async def test_an_idle_page_sends_at_most_one_request_in_15_seconds(place: Place) -> None:
    page = await place.context.new_page()
    tab = WebTab(page, place.stack.url)
    await page.clock.install()
    await page.goto(f"{place.stack.url}/web/")
    await expect(page.get_by_placeholder("Write a message")).to_be_visible()
    await expect(page.locator(".message").first).to_be_visible()
    # the clock stands still on a slow machine, too
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000") + UNUSED_S)
    tab.watch()
    # modules that the page loads when it needs them come once; the stream opens again, because its silence is
    # measured with the clock that runs ahead
    sent = await tab.count_idle_minute(("/web/assets/", "/events"))
    assert len(sent) <= 60 / 15, sent
    await page.clock.resume()  # the clock is one of all pages of the context
    await page.close()


async def test_the_page_outlives_a_kill_of_control_and_sends_what_waits_once(place: Place) -> None:
    await place.page.get_by_label("Write a message").fill("Are you there, control?")
    await place.stack.kill("control")
    await place.page.keyboard.press("Enter")
    message = place.page.locator(".message.user").filter(has_text="Are you there, control?")
    await expect(message).to_have_attribute("data-state", "stored")
    await expect(place.page.locator(".connection")).to_have_attribute("data-state", "on")
    await place.page.reload()
    await expect(message).to_have_count(1)


def _socket(stack: EmbeddedStack) -> httpx2.AsyncHTTPTransport:
    return httpx2.AsyncHTTPTransport(uds=stack.endpoint.removeprefix("unix://"))
