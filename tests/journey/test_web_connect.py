"""Connecting a Telegram bot on the page `setup`, against a Bot API of the test, in a real Chromium."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from choir_common.http.client import make_client
from choir_testing.telegram import FakeTelegram, run_fake_telegram
from tests.support.chromium import needs_chromium
from tests.support.web_cockpit import Cockpit, running_cockpit
from tests.support.xss_corpus import xss_corpus

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
TOKEN, OTHER = "123456:token-from_BotFather", "654321:another-from_BotFather"
ADA, BOB = 4711, 4712
HOSTILE = next(it for it in xss_corpus() if "<img" in it and len(it) < 60)


def edit(config: dict[str, Any]) -> None:
    """Add a person, and a bot whose token is not set."""
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
