"""The chat of the web page in a real Chromium: corrections, voice, days, unread marks and notifications.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
`test_web_page.py` has the basics.
"""

import asyncio
import json
import re
import wave
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, expect

from choir_testing.fake_push_service import FakePushService, run_push_service
from tests.support.chromium import WHOLE_CHROMIUM, needs_chromium
from tests.support.mail import make_certificate
from tests.support.polling import until
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import Cockpit, running_cockpit
from tests.support.web_page import PATIENCE_MS, open_context, open_tab, running_chromium
from tests.support.xss_corpus import xss_corpus

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]

FAKE_MICROPHONE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")
RECORD_NOTIFICATIONS = """
window.shown = [];
window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); shown.push([title, options.body]); }
};
null;
"""
# Chromium under Playwright always says that a page is looked at
LEAVE = """
document.hasFocus = () => false;
Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true});
dispatchEvent(new Event('blur'));
"""
RETURN = """
document.hasFocus = () => true;
delete document.visibilityState;
dispatchEvent(new Event('focus'));
"""


RECORD_SHOWN = """
self.shown = [];
registration.showNotification = async (title, {tag}) => { shown.push([title, tag]); };
null;
"""
# events of scripts may not wait until something is done
PUSH = """(text) => {
  const event = new PushEvent('push', {data: text});
  Object.defineProperty(event, 'waitUntil', {value() {}});
  dispatchEvent(event);
}"""
CLICK = """() => {
  const event = new Event('notificationclick');
  const notification = {close() {}, data: {dm: 'console'}};
  dispatchEvent(Object.assign(event, {notification, waitUntil() {}}));
}"""
SHOWN = """registration.getNotifications()
  .then((all) => all.map((it) => [it.title, it.body, it.tag, it.lang, it.data]))"""
SUBSCRIBE = """
const body = %s;
if ('PushManager' in window) {
PushManager.prototype.getSubscription = async () => ({
  unsubscribe: async () => { window.unsubscribed = true; return true; },
});
PushManager.prototype.subscribe = async ({applicationServerKey, userVisibleOnly}) => {
  if (!userVisibleOnly) throw new Error('not visible');
  const letters = String.fromCharCode(...applicationServerKey);
  window.subscribedWith = btoa(letters).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const {endpoint, ...keys} = body;
  return {toJSON: () => ({endpoint, keys})};
};
}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def push_service(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[FakePushService, Path]]:
    """A push service, and the certificate that it is trusted by."""
    certificate = make_certificate(tmp_path_factory.mktemp("push"))
    with run_push_service(certificate.server_context()) as service:
        yield service, certificate.cert


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit(push_service: tuple[FakePushService, Path]) -> AsyncIterator[Cockpit]:
    service, certificate = push_service
    env = {
        "CHOIR_WEB_PUSH_ALLOW": f"localhost:{service.port}",
        "SSL_CERT_FILE": str(certificate),
    }
    async with running_cockpit(flags=FAKE_MICROPHONE, env=env) as made:
        yield made


async def until_true(cockpit: Cockpit, expression: str) -> None:
    """Wait for the page; the policy of the page forbids Playwright's own way, which evaluates text."""

    async def is_true() -> bool:
        return bool(await cockpit.page.evaluate(expression))

    await until(is_true, within=120)


async def query(cockpit: Cockpit, sql: str) -> list[Any]:
    """Read the stack's database."""
    stack = cockpit.stack
    connection = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        return list(await connection.fetch(sql))
    finally:
        await connection.close()


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


async def test_a_voice_message_is_recorded_and_one_of_the_agent_is_played(cockpit: Cockpit) -> None:
    page = cockpit.page
    record = page.get_by_role("button", name="Record a voice message")
    await page.get_by_label("Write a message").fill("half a thought")
    await record.click()
    await expect(page.get_by_role("timer")).to_have_text("0:01")
    await cockpit.check("chat-recording")
    await page.get_by_role("button", name="Discard the recording").click()
    await expect(page.get_by_role("timer")).to_have_count(0)
    await record.click()
    await expect(page.get_by_role("timer")).to_have_text("0:01")
    await page.get_by_role("button", name="Send the voice message").click()
    call = await cockpit.model.next_call()
    assert '"voice.webm" (voice, audio/webm' in last_words(call)
    # what was being written is another message
    await expect(page.get_by_label("Write a message")).to_have_value("half a thought")
    await page.get_by_label("Write a message").fill("")

    await page.locator(".message.user").get_by_role("button", name="Play Voice message").click()
    own = page.locator(".message.user audio")
    await expect(own).to_have_js_property("ended", True)
    assert await own.evaluate("it => it.currentTime") > 0.5

    workspace = next((cockpit.stack.home / "workspaces").iterdir())
    with wave.open(str(workspace / ".choirtmp" / "send" / "reply.wav"), "wb") as speech:
        speech.setparams((1, 2, 8_000, 0, "NONE", ""))
        speech.writeframes(bytes(8_000))
    arguments = json.dumps({"text": "Listen.", "files": [{"path": ".choirtmp/send/reply.wav"}]})
    function = {"name": "choir_message_send", "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    call.write({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]})
    call.end()
    (await cockpit.model.next_call()).end("That was it.")
    await message(cockpit, "Listen.").get_by_role("button", name="Play reply.wav").click()
    audio = message(cockpit, "Listen.").locator("audio")
    await expect(audio).to_have_js_property("ended", True)
    assert await audio.evaluate("it => it.duration") == 0.5
    await cockpit.check("chat-voice")


@pytest.mark.nightly  # test_web_page.py finds words in a conversation by day
async def test_a_day_is_looked_up_and_left_again(cockpit: Cockpit) -> None:
    page, stack = cockpit.page, cockpit.stack
    connection = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        await connection.executemany(
            "INSERT INTO choir_control.outbox (dm, gateway, agent_id, kind, text, at, status) "
            "VALUES ('console', 'console', 'main', 'answer', $1, $2, 'delivered')",
            [
                (f"day {day} number {number}", datetime(2026, 3, day, 12, number, tzinfo=UTC))
                for day in range(1, 11)
                for number in range(20)
            ],
        )
    finally:
        await connection.close()
    await page.get_by_role("button", name="Search this conversation").click()
    day = page.get_by_label("Jump to a day")
    await day.fill("2026-03-05")
    await expect(page.get_by_text("day 5 number 0", exact=True)).to_be_in_viewport()
    await cockpit.check("chat-day")
    messages = page.locator(".messages")
    # both ways from there, up to the first message and down to the newest
    for move, text in (
        ("it.scrollTop = 0", "day 1 number 0"),
        ("it.scrollTop = it.scrollHeight", "Listen."),
    ):
        async with asyncio.timeout(PATIENCE_MS / 1000):
            while not await page.get_by_text(text, exact=True).count():
                await messages.evaluate(f"it => {{ it.scrollTop = 200; {move}; }}")
                await page.wait_for_timeout(50)
    await expect(page.get_by_text("day 5 number 0", exact=True)).to_have_count(1)
    await page.get_by_label("To the newest message").click()
    await expect(page.get_by_text("day 5 number 0", exact=True)).to_have_count(0)
    await expect(page.get_by_text("That was it.")).to_be_in_viewport()
    await day.fill("2099-01-01")
    await expect(page.get_by_text("no messages since that day")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(day).to_have_count(0)


@pytest.mark.nightly  # test_web_page.py keeps a draft over a reload
async def test_results_of_commands_stay_until_the_tab_is_closed(cockpit: Cockpit) -> None:
    await cockpit.page.reload()
    result = message(cockpit, "Show the agent's state")
    await expect(result).to_have_count(1)
    command = cockpit.page.locator(".message.command").filter(has_text="/help")
    await expect(command).to_have_count(1)
    other = await open_tab(cockpit.context, f"{cockpit.stack.url}/web/")
    await expect(other.page.get_by_text("That was it.")).to_be_visible()
    await expect(other.page.get_by_text("Show the agent's state")).to_have_count(0)
    await other.page.close()


async def test_what_comes_while_nobody_looks_is_counted_marked_and_announced(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await cockpit.context.grant_permissions(["notifications"])
    await page.reload()
    await page.evaluate(RECORD_NOTIFICATIONS)
    await page.get_by_text("Operator", exact=True).click()
    await page.get_by_label("Notifications").check()
    await cockpit.check("chat-settings")
    await page.get_by_text("Operator", exact=True).click()
    await expect(page).to_have_title("Choir")
    await page.evaluate(LEAVE)
    (await cockpit.ask("a question from a phone")).end(f"**First** \u202e{'word ' * 40}")
    await expect(page).to_have_title("(1) Choir")
    (await cockpit.ask("another question")).end("Second.")
    await expect(page).to_have_title("(2) Choir")
    mark = page.locator(".new-mark")
    await expect(mark).to_have_text("New messages")
    [first, second] = await page.evaluate("shown")
    assert first[0] == "New message of main" and second == ["New message of main", "Second."]
    assert len(first[1]) <= 81 and first[1].endswith("…") and "\u202e" not in first[1]
    await page.evaluate(RETURN)
    await expect(page).to_have_title("Choir")
    await expect(mark).to_have_count(1)
    # results of commands keep their place when messages of another window are loaded
    await expect(page.locator(".message").last).to_contain_text("Second.")
    await cockpit.check("chat-unread")
    (await ask(cockpit, "I am back")).end("Welcome back.")
    await expect(page.get_by_text("Welcome back.")).to_be_visible()
    await expect(mark).to_have_count(0)
    assert len(await page.evaluate("shown")) == 2


async def test_a_browser_is_told_by_push_while_its_page_is_closed(
    cockpit: Cockpit, push_service: tuple[FakePushService, Path]
) -> None:
    page, service = cockpit.page, push_service[0]
    subscription = service.subscribe("")
    # headless Chromium has no push service; all but the subscription itself is real
    await page.add_init_script(SUBSCRIBE % json.dumps(subscription.body))
    await page.reload()
    await page.get_by_text("Operator", exact=True).click()
    choice = page.get_by_label("Also when this page is closed")
    await expect(choice).not_to_be_checked()
    await choice.click()
    await until_true(cockpit, "window.subscribedWith")
    await expect(choice).to_be_checked()
    subscription.server_key = await page.evaluate("window.subscribedWith")
    await page.get_by_text("Operator", exact=True).click()
    await cockpit.tab.check()
    # the one policy is taken: no script can name another address for a worker
    taken = (
        "() => { try { trustedTypes.createPolicy('service-worker', {}); } catch { return true; } }"
    )
    assert await page.evaluate(taken)

    worker = cockpit.context.service_workers[0]
    await page.goto("about:blank")
    (await cockpit.ask("a question while it is closed")).end("It is a secret.")

    async def arrived() -> bool:
        return subscription.received != []

    await until(arrived, within=120)
    assert subscription.received == [{"kind": "message", "agent": "main", "dm": "console"}]
    # headless Chromium shows no notifications of workers, either: their titles are recorded
    await worker.evaluate(RECORD_SHOWN)
    for text in (json.dumps(subscription.received[0]), "no JSON"):
        await worker.evaluate(PUSH, text)

    async def is_shown() -> bool:
        return len(await worker.evaluate("shown")) == 2

    await until(is_shown, within=120)
    assert await worker.evaluate("shown.sort()") == [
        ["New message of Choir", "choir:"],
        ["New message of main", "choir:console"],
    ]
    # a page in view shows the message itself; a click leads to the conversation
    await cockpit.open("now")
    await expect(page.get_by_role("heading", level=2).first).to_be_visible()
    await until_true(cockpit, "document.hasFocus() && document.visibilityState === 'visible'")
    await worker.evaluate(PUSH, "{}")

    async def is_open() -> bool:
        # a page that has just been loaded may not listen yet
        await worker.evaluate(CLICK)
        return bool(await page.evaluate("location.hash === '#/chat/console'"))

    await until(is_open, within=120)
    await page.get_by_text("Operator", exact=True).click()
    assert len(await worker.evaluate("shown")) == 2
    await choice.click()
    await until_true(cockpit, "window.unsubscribed")
    await expect(choice).not_to_be_checked()
    rows = await query(cockpit, "SELECT 1 FROM choir_control.web_push_subscriptions")
    assert rows == [] and service.refused == []
    await page.get_by_text("Operator", exact=True).click()


async def registration_of(page: Page) -> str:
    """Return the id under which Chromium knows the service worker of a page."""
    ids: list[str] = []
    session = await page.context.new_cdp_session(page)
    session.on(
        "ServiceWorker.workerRegistrationUpdated",
        lambda event: ids.extend(it["registrationId"] for it in event["registrations"]),
    )
    await session.send("ServiceWorker.enable")

    async def is_known() -> bool:
        return ids != []

    await until(is_known, within=120)
    return ids[-1]


@pytest.mark.nightly  # the test above pushes
async def test_a_push_is_a_notification_in_the_language_of_the_page_without_what_was_said(
    cockpit: Cockpit, push_service: tuple[FakePushService, Path]
) -> None:
    origin, push = cockpit.stack.url, {"kind": "request", "agent": "ma\u202ein", "dm": "console"}
    subscription = push_service[0].subscribe("")
    # the shell shows no notifications; this one does, and takes pushes from its debugging protocol
    async with running_chromium(executable=WHOLE_CHROMIUM) as browser:
        context = await open_context(
            browser,
            storage_state=await cockpit.context.storage_state(),
            permissions=["notifications"],
            locale="de-DE",
        )
        await context.add_init_script(SUBSCRIBE % json.dumps(subscription.body))
        page = (await open_tab(context, f"{origin}/web/")).page
        await page.get_by_text("Betreiber", exact=True).click()
        choice = page.get_by_label("Auch wenn diese Seite geschlossen ist")
        async with page.expect_response(re.compile("session/push$")):
            await choice.click()
        await expect(choice).to_be_checked()
        registration, worker = await registration_of(page), context.service_workers[0]
        blank = await context.new_page()
        session = await context.new_cdp_session(blank)
        await session.send("ServiceWorker.enable")
        await page.close()  # a page in view would show the message itself
        sent = {"origin": origin, "registrationId": registration, "data": json.dumps(push)}
        await session.send("ServiceWorker.deliverPushMessage", sent)

        async def is_shown() -> bool:
            return bool(await worker.evaluate(SHOWN))

        await until(is_shown, within=120)
        assert await worker.evaluate(SHOWN) == [
            ["main bittet um eine Entscheidung", "", "choir:console", "de", {"dm": "console"}]
        ]


@pytest.mark.nightly  # other pages show hostile texts by day: page, now, memory
async def test_hostile_files_and_corrections_run_nothing(cockpit: Cockpit) -> None:
    texts = list(xss_corpus())[::4]
    stack = cockpit.stack
    connection = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        await connection.executemany(
            "INSERT INTO choir_control.inbox (inbox_id, gateway, update_id, dm, text, sent_at, closed_at, "
            "attachments, message_id, edits) "
            "VALUES ($1, 'console', $1, 'console', $2, now(), now(), $3, $4, $4)",
            [
                (
                    f"in_hostile{number}",
                    text,
                    json.dumps(
                        [
                            {
                                "name": text[:200],
                                "kind": "voice",
                                "mime": "audio/webm",
                                "ref": "console/x",
                            }
                        ]
                    ),
                    text[:64],
                )
                for number, text in enumerate(texts)
            ],
        )
    finally:
        await connection.close()
    await cockpit.page.reload()
    await expect(cockpit.page.get_by_role("button", name="Play Voice message").last).to_be_visible()
    await cockpit.page.get_by_label("Write a message").press("ArrowUp")
    await expect(cockpit.page.get_by_label("Write a message")).to_have_value(texts[-1])
    await cockpit.page.keyboard.press("Escape")
    await expect(cockpit.page.locator(".message").last).to_contain_text(texts[-1][:30])
    await cockpit.tab.check()
