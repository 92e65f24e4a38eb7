"""Connecting a Telegram bot on the page `setup`, against a Bot API of the test, in a real Chromium.

The same stack shows first that German views have no English words.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Page, Route, expect

from choir_common.http.client import make_client
from choir_gateway.web.assets import STATIC
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.service.choirctl.test_german import OTHERS_WORDS
from tests.support.chromium import needs_chromium
from tests.support.polling import until
from tests.support.web_cockpit import Cockpit, ask, running_cockpit, use_tools
from tests.support.web_page import open_context, open_tab
from tests.support.xss_corpus import xss_corpus

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
TOKEN, OTHER = "123456:token-from_BotFather", "654321:another-from_BotFather"
ADA, BOB = 4711, 4712
HOSTILE = next(it for it in xss_corpus() if "<img" in it and len(it) < 60)


GERMAN = (
    *("chat", "now", "approvals", "log", "cost", "memory", "setup"),
    *(
        f"memory/main/{it}"
        for it in ("knowledge", "calendar", "collections", "reminders", "overview")
    ),
    *(
        f"setup/{it}"
        for it in ("models", "config", "secrets", "channels", "people", "installation")
    ),
)
"""All pages but the guides, which are English. What is said in conversations is the same on all channels."""
READ_WORDS = """() => {
  const texts = [];
  const walker = document.createTreeWalker(document.getElementById('app'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const {data, parentElement} = walker.currentNode;
    if (!parentElement.closest('code, pre, textarea, .messages, [lang=en]')) texts.push(data);
  }
  for (const name of ['title', 'aria-label', 'placeholder', 'data-title']) {
    for (const element of document.querySelectorAll(`#app [${name}]`)) texts.push(element.getAttribute(name));
  }
  return texts;
}"""
NAMES = {"agent", "browser", "english", "exec", "like", "memory", "session", "write"}
"""Names of services, lanes, tools and languages, and a word of each user agent."""


TECHNICAL = re.compile(r"^ *(?:/|\{|choirctl |make )")
"""Paths, JSON and commands."""


def edit(config: dict[str, Any]) -> None:
    """Add a person, and a bot whose token is not set."""
    config["policy"] = [{"action": "ask", "tools": ["choir.fs.write"], "why": "Geld"}]
    config["gateways"]["bot"] = {"type": "telegram", "secret": "bot-token"}
    config["people"] = {
        "max": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]}
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with run_fake_telegram() as fake:
        fake.bot(TOKEN)
        fake.bot(OTHER)
        yield fake


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit(telegram: FakeTelegram) -> AsyncIterator[Cockpit]:
    async with running_cockpit(edit) as made:
        yield made


def config_of(cockpit: Cockpit) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((cockpit.stack.home / "config.json").read_text())
    return config


async def begin(cockpit: Cockpit, telegram: FakeTelegram, token: str, person: str = "") -> Locator:
    """Fill in the form; return the card of the attempt."""
    page = cockpit.page
    await page.get_by_role("button", name="Connect Telegram").click()
    form = page.get_by_role("dialog")
    await form.get_by_label("Token of the bot").fill(token)
    await form.locator("select[name=person]").select_option(person)
    await form.get_by_text("More settings").click()
    await form.get_by_label("Bot API server").fill(telegram.api_url)
    await form.get_by_role("button", name="Get the code").click()
    return page.get_by_role("article", name=f"@bot_{token.partition(':')[0]}")


def words_of(texts: Iterable[str]) -> set[str]:
    return {word for text in texts for word in re.findall(r"[a-z]{3,}", text.lower())}


async def read_words(page: Page) -> list[str]:
    """Return the words of the page once two looks see the same: translations of services arrive later."""
    before: list[str] = []
    for _look in range(20):
        texts: list[str] = await page.evaluate(READ_WORDS)
        if texts == before:
            break
        before = texts
        await asyncio.sleep(0.3)
    return before


async def mark_texts(route: Route) -> None:
    """Send a catalogue with its texts marked, but not the values in them."""
    answer = await route.fetch()
    texts = {
        key: re.sub(r"[^{}]+(?![^{]*\})", "⟦\\g<0>⟧", text)
        for key, text in (await answer.json()).items()
    }
    await route.fulfill(response=answer, json=texts)


async def test_what_the_server_says_is_german_in_a_german_page(cockpit: Cockpit) -> None:
    state = await cockpit.context.storage_state()
    context = await open_context(cockpit.browser, storage_state=state, locale="de-DE")
    await context.clear_cookies()
    page = (await open_tab(context, f"{cockpit.stack.url}/web/#/approvals/appr_nichts")).page
    await page.get_by_label("Betreiber-Token").fill("falsch")
    await page.get_by_role("button", name="Anmelden").click()
    await expect(page.get_by_role("alert")).to_have_text("Das Betreiber-Token ist falsch.")
    await context.add_cookies(state["cookies"])  # type: ignore[arg-type]
    await page.reload()
    await expect(page.get_by_role("alert")).to_contain_text(
        "Die Anfrage 'appr_nichts' gibt es nicht."
    )
    # without a translation, its own words are shown as such
    await page.route(
        "**/v1/sessions/ses_nichts",
        lambda route: route.fulfill(
            status=409, json={"detail": "It is <b>odd</b>.", "code": "conflict"}
        ),
    )
    await page.goto(f"{cockpit.stack.url}/web/#/log/ses_nichts")
    text = "Der jetzige Stand lässt das nicht zu. Meldung des Servers: It is <b>odd</b>."
    await expect(page.get_by_role("alert")).to_contain_text(text)
    await context.close()


async def test_german_views_have_no_english_words(cockpit: Cockpit) -> None:
    (await ask(cockpit, "Hallo")).end("Guten Tag.")
    hidden = {"path": "kasse.txt", "content": "5\u202e \u200b p\u0430ypal"}
    use_tools(await ask(cockpit, "Schreib das auf"), ("choir.fs.write", hidden))

    async def asks() -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = (await cockpit.user.client.get("/v1/approvals")).json()[
            "items"
        ]
        return items

    await until(asks, within=120)
    [request] = await asks()
    state = await cockpit.context.storage_state()
    context = await open_context(cockpit.browser, storage_state=state, locale="de-DE")
    english, german = (
        words_of(json.loads((STATIC / f"locales/{name}.json").read_text()).values())
        for name in ("en", "de")
    )
    await context.route("**/locales/de.json", mark_texts)
    page = (await open_tab(context, f"{cockpit.stack.url}/web/")).page
    findings: dict[str, list[str]] = {}
    for place in (*GERMAN, f"approvals/{request['approval_id']}", f"log/{request['session_id']}"):
        await page.goto(f"{cockpit.stack.url}/web/#/{place}")
        await expect(page.locator("main[aria-busy=false]")).to_be_visible()
        await expect(page.get_by_text("Wird geladen")).to_have_count(0)
        heads = page.locator(".log-group-head[aria-expanded=false]")
        while await heads.count():
            await heads.evaluate_all("all => all.forEach((it) => it.click())")
        texts = await read_words(page)
        assert len([text for text in texts if "⟦" in text]) > 10, place
        rest = [re.sub("⟦[^⟧]*⟧", " ", text) for text in texts]
        rest = [text for text in rest if not TECHNICAL.search(text)]
        if place == "setup/installation":
            # services quote errors of the system, with paths
            rest = [OTHERS_WORDS.sub(" ", text) for text in rest]
        found = (words_of(rest) & english) - german - NAMES
        findings[place] = [text for text in rest if words_of([text]) & found]
    assert not any(findings.values()), [it for it in findings.items() if it[1]]
    await expect(page.get_by_text("Schreib das auf").first).to_be_visible()
    await context.close()
    await cockpit.user.client.post(f"/v1/approvals/{request['approval_id']}/reject", json={})
    (await cockpit.model.next_call()).end("Gut.")


async def test_channels_are_shown_with_what_is_wrong_with_them(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("setup", "channels")
    table = page.get_by_role("region", name="Channels", exact=True)
    console = table.get_by_role("row").filter(has_text="console")
    await expect(console).to_contain_text("Running")
    await expect(console).to_contain_text("main")
    bot = table.get_by_role("row").filter(has_text="bot")
    await expect(bot).to_contain_text("bot-token")
    others = page.get_by_role("region", name="Other channels")
    await expect(others).to_contain_text("signal.md")
    await cockpit.check("setup-channels")


async def test_what_is_wrong_with_a_token_is_said_and_changes_nothing(
    cockpit: Cockpit, telegram: FakeTelegram
) -> None:
    page, before = cockpit.page, config_of(cockpit)
    await begin(cockpit, telegram, "no token at all")
    alert = page.get_by_role("dialog").get_by_role("alert")
    await expect(alert).to_contain_text("@BotFather prints it as")
    await page.get_by_label("Token of the bot").fill("999:unknown")
    await page.get_by_role("button", name="Get the code").click()
    await expect(alert).to_contain_text("Telegram refuses this token")
    await cockpit.check("setup-telegram-refused")
    await page.keyboard.press("Escape")
    assert config_of(cockpit) == before


async def test_a_bot_is_connected_with_a_person_through_wrong_codes_and_a_reload(
    cockpit: Cockpit, telegram: FakeTelegram
) -> None:
    page = cockpit.page
    card = await begin(cockpit, telegram, TOKEN, "max")
    await expect(card).to_contain_text("Waiting for the code")
    await expect(card).to_contain_text("with the rights of max")
    code = await card.locator("code").inner_text()
    link = card.get_by_role("link")
    assert await link.get_attribute("href") == f"https://t.me/bot_123456?start={code}"
    await telegram.user(BOB, TOKEN).send("/start WRNG-WRNG")
    await expect(card).to_contain_text("Wrong codes that were sent to the bot: 1")
    await cockpit.check("setup-telegram-code")
    await page.reload()
    await expect(card).to_contain_text(code)
    ada = telegram.user(ADA, TOKEN)
    ada.chat.first_name = HOSTILE
    await ada.send(f"/start {code}")
    await expect(card).to_contain_text(HOSTILE)
    await expect(card).to_contain_text("main answers there")
    await ada.wait_until(lambda chat: "You are talking to main" in " ".join(chat.bot_texts()), 60)
    row = page.get_by_role("region", name="Channels", exact=True).get_by_role("row")
    await expect(row.filter(has_text="phone")).to_contain_text("Running")
    await cockpit.check("setup-telegram-connected")
    config = config_of(cockpit)
    assert config["dms"]["phone"] == {"gateway": "telegram", "user_id": str(ADA)}
    assert config["people"]["max"]["identities"][-1] == {"gateway": "telegram", "user": str(ADA)}
    assert len(config["people"]["max"]["identities"]) == 2
    assert cockpit.stack.secret("telegram-token") == TOKEN


async def test_an_attempt_is_cancelled_and_one_that_fails_says_why(
    cockpit: Cockpit, telegram: FakeTelegram
) -> None:
    page, before = cockpit.page, config_of(cockpit)
    card = await begin(cockpit, telegram, OTHER)
    await expect(card).to_contain_text("an admin of Choir")
    await page.get_by_role(
        "button", name="Cancel: stop waiting for the code of @bot_654321"
    ).click()
    await expect(card).to_contain_text("The attempt was cancelled. Nothing was changed.")
    assert config_of(cockpit) == before
    await begin(cockpit, telegram, TOKEN)
    alert = page.get_by_role("dialog").get_by_role("alert")
    await expect(alert).to_contain_text("This bot is connected already: gateways.telegram")
    await page.keyboard.press("Escape")


async def test_the_token_is_nowhere_but_in_the_file_of_secrets(cockpit: Cockpit) -> None:
    page = cockpit.page
    shown = await page.content()
    shown += await page.evaluate("JSON.stringify([localStorage, sessionStorage, location.href])")
    shown += await page.evaluate(
        "[...document.querySelectorAll('input')].map((it) => it.value).join()"
    )
    async with make_client(cockpit.stack.endpoint) as client:
        shown += (await client.get("/v1/telegram/connections")).text
    shown += cockpit.stack.logs(10_000)
    assert "token-from_BotFather" not in shown and "another-from_BotFather" not in shown
    await cockpit.tab.check()
