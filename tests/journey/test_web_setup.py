"""The page `setup` in a real Chromium: agents, configuration, models, secrets, people and browsers.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
"""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Locator, expect

from choir_common.http.client import make_client
from choir_testing.providers.openai import OpenAi
from choir_testing.providers.provider import KEY
from choir_testing.providers.server import run_provider
from tests.support.chromium import needs_chromium
from tests.support.web_cockpit import Cockpit, hostile_texts, running_cockpit
from tests.support.web_page import open_context, open_tab

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
CANARY = f"canary/of the page+{os.urandom(9).hex()}="
HOSTILE = [text.replace("\n", " ") for text in hostile_texts(0)[::3]][:60]
EDITOR = "Text of config.json"


def edit(config: dict[str, Any], provider: OpenAi) -> None:
    """Add what the page shows: a channel with pairing, people, a model, and secrets that are not set."""
    config["models"]["gpt"] = provider.settings(timeout_ms=9_000).model_dump(
        mode="json", exclude_none=True
    )
    config["gateways"]["bot"] = {
        "type": "telegram",
        "secret": "bot-token",
        "api_url": "http://127.0.0.1:1",
        "pairing": {"agent": "main", "role": "guest"},
    }
    config["people"] = {
        "max": {"role": "owner", "identities": [{"gateway": "console", "user": "operator"}]},
        "ann": {"role": "member", "identities": [{"gateway": "console", "user": "ann"}]},
    }
    config["dms"]["ann"] = {"gateway": "console", "user_id": "ann"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OpenAi]:
    async with run_provider(OpenAi()) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit(provider: OpenAi) -> AsyncIterator[Cockpit]:
    async with running_cockpit(lambda config: edit(config, provider)) as made:
        yield made


async def execute(cockpit: Cockpit, *statements: tuple[Any, ...]) -> None:
    """Run SQL in the stack's database."""
    connection = await asyncpg.connect(
        cockpit.stack.dsn, password=cockpit.stack.secret("postgres-admin")
    )
    try:
        for sql, *values in statements:
            await connection.execute(sql, *values)
    finally:
        await connection.close()


def button(cockpit: Cockpit, name: str) -> Locator:
    return cockpit.page.get_by_role("button", name=name, exact=True)


def config_of(cockpit: Cockpit) -> dict[str, Any]:
    """Return config.json as it is stored."""
    config: dict[str, Any] = json.loads((cockpit.stack.home / "config.json").read_text())
    return config


async def save_and_apply(cockpit: Cockpit) -> None:
    await button(cockpit, "Save and compare").click()
    await button(cockpit, "Apply").click()
    await expect(
        cockpit.page.get_by_role("heading", name="Who has the new version")
    ).to_be_visible()
    await expect(cockpit.page.get_by_role("heading", name="Differences")).to_have_count(0)


async def test_an_agent_is_stopped_started_restarted_and_updated(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_role("link", name="Set-up").click()
    card = page.get_by_role("article", name="main", exact=True)
    await expect(card).to_contain_text("Running")
    await cockpit.check("setup-agents")
    await button(cockpit, "Stop main").click()
    dialog = page.get_by_role("dialog", name="Stop main?")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(card).to_contain_text("Running")
    await button(cockpit, "Stop main").click()
    await dialog.get_by_role("button", name="Stop").click()
    await expect(card).to_contain_text("Stopped")
    await button(cockpit, "Start main").click()
    await expect(card).to_contain_text("Running")
    await button(cockpit, "Restart main").click()
    await expect(card).to_contain_text("Running")
    await card.get_by_role("button", name="Update main").click()
    operation = page.locator("[data-operation]").first
    await expect(operation).to_contain_text("main")
    await expect(operation).to_contain_text("Failed")
    await expect(operation).to_contain_text("main has no repository")
    await page.reload()
    await expect(page.locator("[data-operation]").first).to_contain_text("main has no repository")


async def test_an_edit_of_the_configuration_is_saved_compared_and_applied(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("setup", "config")
    editor = page.get_by_label(EDITOR)
    path = cockpit.stack.home / "config.json"
    await expect(editor).to_have_value(path.read_text())
    text = json.dumps(config_of(cockpit) | {"event_window": 4321}, indent=2)
    await editor.fill(text)
    await expect(page.get_by_text("Not saved")).to_be_visible()
    # another tab keeps the edit
    await page.get_by_role("link", name="Models").click()
    await page.get_by_role("link", name="Configuration").click()
    await expect(editor).to_have_value(text)
    await button(cockpit, "Save and compare").click()
    row = page.get_by_role("row").filter(has_text="event_window")
    await expect(row).to_contain_text("4321")
    await expect(page.get_by_text("Not saved")).to_have_count(0)
    assert path.read_text() == text
    await cockpit.check("setup-config")
    async with make_client(cockpit.stack.endpoint) as client:
        digest = (await client.get("/v1/config/diff")).json()["digest"]
    async with page.expect_request("**/config/apply") as applying:
        await button(cockpit, "Apply").click()
    # exactly what was shown
    assert (await applying.value).post_data_json == {"digest": digest}
    await expect(page.get_by_role("heading", name="Who has the new version")).to_be_visible()
    await expect(page.get_by_role("status").filter(has_text="main")).to_contain_text("Has it")
    shown = json.loads(await asyncio.to_thread(cockpit.stack.run, "config", "show", "--json"))
    assert shown["config"]["event_window"] == 4321


async def test_help_says_what_the_setting_at_the_cursor_does(cockpit: Cockpit) -> None:
    editor = cockpit.page.get_by_label(EDITOR)
    await editor.evaluate(
        "(it) => { const at = it.value.indexOf('event_window'); it.focus(); it.setSelectionRange(at, at); }"
    )
    await cockpit.page.keyboard.press("ArrowRight")
    schema = json.loads(await asyncio.to_thread(cockpit.stack.run, "config", "schema"))[
        "properties"
    ]["event_window"]
    await expect(cockpit.page.locator("#setting-help")).to_contain_text(schema["description"])


async def test_a_text_that_is_not_usable_is_refused_with_its_place(cockpit: Cockpit) -> None:
    page, editor = cockpit.page, cockpit.page.get_by_label(EDITOR)
    before = (cockpit.stack.home / "config.json").read_text()
    await editor.fill(before.replace('"event_window": 4321', '"event_window": "many"'))
    await button(cockpit, "Save and compare").click()
    alert = page.get_by_role("alert")
    line = next(n for n, it in enumerate(before.splitlines(), 1) if "event_window" in it)
    await expect(alert).to_contain_text(f"line {line}, event_window")
    await cockpit.check("setup-config-refused")
    await editor.fill(before.rstrip()[:-1])
    await button(cockpit, "Save and compare").click()
    await expect(alert).to_contain_text("EOF while parsing")
    assert (cockpit.stack.home / "config.json").read_text() == before
    await button(cockpit, "Discard edits").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard edits").click()
    await expect(editor).to_have_value(before)


async def test_a_change_by_somebody_else_is_not_overwritten(cockpit: Cockpit) -> None:
    page, editor = cockpit.page, cockpit.page.get_by_label(EDITOR)
    path = cockpit.stack.home / "config.json"
    await editor.fill(path.read_text().replace("4321", "4322"))
    theirs = path.read_text().replace("4321", "5000")
    path.write_text(theirs)
    await button(cockpit, "Save and compare").click()
    await expect(page.get_by_role("alert")).to_contain_text("was changed in the meantime")
    assert path.read_text() == theirs
    await expect(editor).to_have_value(theirs.replace("5000", "4322"))
    await button(cockpit, "Discard edits").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard edits").click()
    await expect(editor).to_have_value(theirs)


@pytest.mark.nightly  # test_an_edit_of_the_configuration_is_saved_compared_and_applied edits by day
async def test_an_edit_that_is_not_saved_survives_a_reload_of_this_tab(cockpit: Cockpit) -> None:
    page, editor = cockpit.page, cockpit.page.get_by_label(EDITOR)
    path = cockpit.stack.home / "config.json"
    text = path.read_text().replace("5000", "5001")
    await editor.fill(text)
    await page.reload()
    await expect(editor).to_have_value(text)
    await expect(page.get_by_text("Not saved")).to_be_visible()
    await expect(page.get_by_text("was changed since you began this edit")).to_have_count(0)
    theirs = path.read_text().replace("5000", "6000")
    path.write_text(theirs)
    await page.reload()
    await expect(editor).to_have_value(text)
    await expect(page.get_by_text("was changed since you began this edit")).to_be_visible()
    await cockpit.check("setup-config-outdated")
    await button(cockpit, "Save and compare").click()
    await expect(page.get_by_role("alert")).to_contain_text("was changed in the meantime")
    assert path.read_text() == theirs
    await button(cockpit, "Discard edits").click()
    await page.get_by_role("dialog").get_by_role("button", name="Discard edits").click()
    await page.reload()
    await expect(editor).to_have_value(theirs)
    await expect(page.get_by_text("Not saved")).to_have_count(0)


@pytest.mark.nightly  # test_an_edit_of_the_configuration_is_saved_compared_and_applied edits by day
async def test_signing_out_forgets_an_edit(cockpit: Cockpit) -> None:
    link = (await asyncio.to_thread(cockpit.stack.run, "web")).strip()
    other = await open_tab(await open_context(cockpit.browser), link)
    page = other.page
    await page.get_by_role("link", name="Set-up").click()
    await page.get_by_role("link", name="Configuration").click()
    await page.get_by_label(EDITOR).fill("{} of somebody")
    kept = "Object.values(sessionStorage).some((it) => it.includes('of somebody'))"
    assert await page.evaluate(kept)
    await page.locator("details.settings summary").click()
    async with page.expect_navigation():  # the page loads itself again
        await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("Operator token")).to_be_visible()
    assert not await page.evaluate(kept)
    await other.check()
    await page.context.close()


async def test_a_new_agent_is_made_by_a_form_and_started(cockpit: Cockpit) -> None:
    page = cockpit.page
    before = (cockpit.stack.home / "config.json").read_text()
    await cockpit.open("setup", "agents")
    await button(cockpit, "New agent").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("helper")
    await cockpit.check("setup-new-agent")
    await button(cockpit, "Add to config.json").click()
    await expect(page.get_by_label(EDITOR)).to_have_value(re.compile('"helper": {'))
    text = await page.get_by_label(EDITOR).input_value()
    # nothing else of the text has changed
    lines = iter(text.splitlines())
    assert all(
        any(it.rstrip(",") == mine.rstrip(",") for mine in lines) for it in before.splitlines()
    )
    await save_and_apply(cockpit)
    assert config_of(cockpit)["agents"]["helper"]["defaults"]["dm"] == "helper"
    assert config_of(cockpit)["dms"]["helper"]["admin"] is True
    await page.get_by_role("link", name="Agents").click()
    await button(cockpit, "Start helper").click()
    await expect(page.get_by_role("article", name="helper")).to_contain_text("Running")
    await button(cockpit, "New agent").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("helper")
    await button(cockpit, "Add to config.json").click()
    await expect(page.locator(".toast")).to_contain_text("config.json has agents.helper already")
    await page.keyboard.press("Escape")


@pytest.mark.nightly  # test_a_new_agent_is_made_by_a_form_and_started fills in such a form
async def test_a_model_is_added_by_a_form(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("setup", "models")
    row = page.get_by_role("row").filter(has_text="default")
    await expect(row).to_contain_text("Language model")
    await cockpit.check("setup-models")
    await button(cockpit, "Add model").click()
    await page.locator("select[name=provider]").select_option("Ollama")
    await page.get_by_role("textbox", name="Name How agents").fill("local")
    await page.get_by_label("Model id").fill("qwen3:8b")
    await cockpit.check("setup-new-model")
    await button(cockpit, "Add to config.json").click()
    await save_and_apply(cockpit)
    assert config_of(cockpit)["models"]["local"] == {
        "provider": "ollama",
        "api": "ollama",
        "model": "qwen3:8b",
        "endpoint": "http://127.0.0.1:11434",
    }
    await page.get_by_role("link", name="Models").click()
    await expect(page.get_by_role("row").filter(has_text="local")).to_contain_text("qwen3:8b")


async def store_secret(cockpit: Cockpit, name: str, value: str) -> None:
    await cockpit.page.get_by_role("link", name="Secrets").click()
    await cockpit.page.get_by_role("row").filter(has_text=name).get_by_role("button").click()
    await cockpit.page.get_by_role("dialog").get_by_label("Value").fill(value)
    await button(cockpit, "Store").click()
    await button(cockpit, "Apply").click()
    await expect(cockpit.page.get_by_text("fetch the new values")).to_be_visible()
    await cockpit.page.get_by_role("link", name="Models").click()


async def test_a_model_is_tested_and_the_page_says_what_mends_it(
    cockpit: Cockpit, provider: OpenAi
) -> None:
    page = cockpit.page
    await cockpit.open("setup", "models")
    test = button(cockpit, "Test gpt: send it one request")
    result = page.locator("[data-outcome]")
    await test.click()
    await expect(result).to_contain_text("Does not work")
    await expect(result.locator("code").first).to_have_text("choirctl secret set provider_key")
    assert provider.requests == []
    await store_secret(cockpit, "provider_key", "sk-a-wrong-key-of-the-test")
    await test.click()
    await expect(result).to_contain_text("Store a valid one")
    await cockpit.check("setup-model-test-failed")
    await store_secret(cockpit, "provider_key", KEY)
    await test.click()
    await expect(result).to_contain_text("Works")
    await expect(result).to_contain_text("responds and supports tools")
    await expect(result.locator("dd code")).to_contain_text(provider.model)
    await expect(result).to_contain_text(re.compile(r"Time\s*\d"))
    assert len(provider.requests) == 2
    await cockpit.check("setup-model-test")


async def test_a_secret_is_stored_and_applied_and_never_shown(cockpit: Cockpit) -> None:
    page = cockpit.page
    bodies: list[str] = []

    async def keep(response: Any) -> None:
        if "/v1/" in response.url and "event-stream" not in response.headers.get(
            "content-type", ""
        ):
            with contextlib.suppress(PlaywrightError):  # of a page that was left
                bodies.append(await response.text())

    page.on("response", keep)
    await cockpit.open("setup", "secrets")
    row = page.get_by_role("row").filter(has_text="bot-token")
    await expect(row).to_contain_text("Not set")
    await expect(row).to_contain_text("gateways.bot")
    await button(cockpit, "New secret").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("operator-token")
    await page.get_by_role("dialog").get_by_label("Value").fill(CANARY)
    await button(cockpit, "Store").click()
    await expect(page.get_by_role("alert")).to_contain_text("is Choir's own secret")
    # what was typed stays when the form is drawn again
    await expect(page.get_by_role("dialog").get_by_label("Name")).to_have_value("operator-token")
    await page.get_by_role("dialog").get_by_label("Name").fill("spare-key")
    await cockpit.check("setup-new-secret")
    await button(cockpit, "Store").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.get_by_text("is not used yet")).to_be_visible()
    assert cockpit.stack.secret("spare-key") == CANARY
    await button(cockpit, "Apply").click()
    await expect(page.get_by_text("fetch the new values")).to_be_visible()
    await expect(page.get_by_role("row").filter(has_text="spare-key")).to_contain_text("Set")
    await cockpit.check("setup-secrets")
    page.remove_listener("response", keep)
    stored = await page.evaluate("JSON.stringify([localStorage, sessionStorage, location.href])")
    values = await page.evaluate(
        "[...document.querySelectorAll('input')].map((it) => it.value).join()"
    )
    log = cockpit.stack.logs(10_000)
    changes = [it for it in log.splitlines() if "secret stored" in it]
    assert changes and all("web_" in it for it in changes), changes
    shown = await page.content() + stored + values + "".join(bodies) + log
    assert len(bodies) > 3 and CANARY not in shown and "canary" not in shown


async def test_a_request_to_talk_is_allowed_and_taken_back_and_another_refused(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    insert = (
        "INSERT INTO choir_control.pairing_requests (gateway, user_id, dm, user_name, code, expires_at) "
        "VALUES ('bot', $1, $2, $3, $4, clock_timestamp() + interval '1 hour')"
    )
    await execute(
        cockpit,
        (insert, "4711", "bot-4711", "Zoe", "ABCD2345"),
        (insert, "4712", "bot-4712", HOSTILE[0], "ABCD2346"),
    )
    await cockpit.open("setup", "people")
    await expect(page.get_by_role("article", name="ABCD-2346")).to_contain_text(HOSTILE[0])
    await cockpit.check("setup-people")
    await button(cockpit, "Refuse the user with the code ABCD-2346").click()
    await expect(page.get_by_role("article", name="ABCD-2346")).to_have_count(0)
    await button(cockpit, "Allow the user with the code ABCD-2345").click()
    conversations = page.get_by_role("region", name="Conversations")
    row = conversations.get_by_role("row").filter(has_text="bot-4711")
    await expect(row).to_contain_text("main")
    people = page.get_by_role("region", name="People")
    person = people.get_by_role("row").filter(has_text="bot-4711")
    await expect(person).to_contain_text("Zoe")
    await expect(person).to_contain_text("bot: 4711")
    [browser] = (await cockpit.user.client.get("/v1/web/sessions")).json()["items"]
    await expect(person).to_contain_text(
        f"Allowed by: Operator, browser {browser['web_session_id']}"
    )
    await button(cockpit, "Take the permission of bot-4711 back").click()
    await page.get_by_role("dialog").get_by_role("button", name="Take back").click()
    await expect(row).to_have_count(0)


async def test_a_link_signs_another_browser_in_and_its_session_is_revoked(cockpit: Cockpit) -> None:
    page = cockpit.page
    await button(cockpit, "Sign in another browser").click()
    await page.locator("select[name=person]").select_option("ann")
    await button(cockpit, "Create link").click()
    link = await page.get_by_role("dialog").locator("code").inner_text()
    await cockpit.check("setup-link")
    other = await open_tab(await open_context(cockpit.browser), link)
    await expect(other.page.get_by_label("Write a message")).to_be_visible()
    # a person does not see the page
    await expect(other.page.get_by_role("link", name="Set-up")).to_have_count(0)
    await page.keyboard.press("Escape")
    await page.reload()
    browsers = page.get_by_role("region", name="Browsers")
    row = browsers.get_by_role("row").filter(has_text="ann")
    await row.get_by_role("button").click()
    await page.get_by_role("dialog").get_by_role("button", name="Sign out").click()
    await expect(row).to_have_count(0)
    await other.page.reload()
    await expect(other.page.get_by_label("Operator token")).to_be_visible()
    await other.check()
    await other.page.context.close()


async def test_the_installation_is_shown_with_commands_to_copy(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await cockpit.open("setup", "installation")
    await expect(page.get_by_text(str(cockpit.stack.home), exact=True)).to_be_visible()
    await cockpit.check("setup-installation")
    await button(cockpit, "Copy: choirctl db restore choir.backup").click()
    assert (
        await page.evaluate("navigator.clipboard.readText()") == "choirctl db restore choir.backup"
    )


@pytest.mark.nightly  # test_web_assets.py checks the list of guides
async def test_a_guide_is_read_in_the_page_and_leads_to_others(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("setup", "channels")
    await page.get_by_role("link", name="slack.md").click()
    guide = page.locator(".setup-guide")
    await expect(guide.get_by_role("heading", name="Slack", exact=True)).to_be_visible()
    await cockpit.check("setup-guide")
    await guide.get_by_role("link", name=re.compile("conversations")).first.click()
    await expect(
        guide.get_by_role("heading", name="One agent in several conversations")
    ).to_be_visible()
    await page.get_by_role("link", name="Guides").last.click()
    await expect(page.get_by_role("link", name="telegram.md")).to_be_visible()
    await cockpit.check("setup-guides")


@pytest.mark.nightly  # other pages show hostile texts by day: page, now, memory
async def test_texts_of_others_run_nothing_and_are_shown(cockpit: Cockpit) -> None:
    page = cockpit.page
    config = config_of(cockpit)
    config["models"] |= {
        f"evil{n}": {"model": text, "endpoint": f"http://127.0.0.1:1/{text}"}
        for n, text in enumerate(HOSTILE)
    }
    await cockpit.open("setup", "config")
    await page.get_by_label(EDITOR).fill(json.dumps(config, indent=2))
    await button(cockpit, "Save and compare").click()
    await expect(page.get_by_role("row").filter(has_text=f"evil{len(HOSTILE) - 1}")).to_be_visible()
    await cockpit.tab.check()
    await button(cockpit, "Apply").click()
    await expect(page.get_by_role("heading", name="Who has the new version")).to_be_visible()
    await page.get_by_role("link", name="Models").click()
    for n in (0, len(HOSTILE) // 2, len(HOSTILE) - 1):
        row = page.get_by_role("row").filter(has_text=f"evil{n}")
        await expect(row.first).to_contain_text(HOSTILE[n][:40])
    await button(cockpit, "Test evil0: send it one request").click()
    await expect(page.locator("[data-outcome]")).to_contain_text(HOSTILE[0][:40])
    await cockpit.tab.check()
    insert = (
        "INSERT INTO choir_control.operations (operation_id, kind, subject, status, step, error, began_at, "
        "ended_at) VALUES ($1, $2, $2, 'failed', $2, $2, clock_timestamp(), clock_timestamp())"
    )
    await execute(
        cockpit,
        *((insert, f"op_hostile{n}", text) for n, text in enumerate(HOSTILE[:8])),
        ("UPDATE choir_control.web_sessions SET user_agent = $1", HOSTILE[2]),
    )
    await page.get_by_role("link", name="Agents").click()
    await expect(page.locator(".setup-list")).to_contain_text(HOSTILE[1])
    await page.get_by_role("link", name="People", exact=True).click()
    await expect(page.get_by_role("region", name="Browsers")).to_contain_text(HOSTILE[2])
    await cockpit.tab.check()
