"""Bots come, go and change their tokens and their ways while everything runs: no restart, nothing lost."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from choir_testing.telegram.webhook import SECRET_HEADER
from tests.journey.town import ADA, ANNEX, BEN, LOBBY, Phone, Town, founding_town, keep_secrets
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    # tests/service/gateway/test_bots.py, test_tokens.py and test_telegram_webhook.py have each step
    pytest.mark.nightly,
]
NEW_LOBBY, TOWER = "111:new-token-of-the-lobby", "444:token-of-the-tower"
HOOK_SECRET = "a-secret_between-us"
SAID = "An agent of the town."


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(port: int) -> AsyncIterator[Town]:
    def edit(config: dict[str, Any]) -> None:
        hook = {"url": f"http://127.0.0.1:{port}/telegram/annex", "secret": "annex-hook"}
        config["gateways"]["annex"]["webhook"] = hook
        config["agents"]["aide"]["autostart"] = True

    env = {"CHOIR_GATEWAY_HTTP": f"127.0.0.1:{port}"}
    async with founding_town(env, edit, {"annex-hook": HOOK_SECRET}) as founded:
        yield founded


async def apply_config(town: Town) -> None:
    await asyncio.to_thread(town.stack.run, "config", "load")
    await asyncio.to_thread(town.stack.run, "config", "apply")


async def answers(phone: Phone) -> None:
    assert await phone.asks("who are you?", SAID) == SAID


def gateway_pid(town: Town) -> tuple[int, int]:
    child = town.stack.children()["children"]["gateway"]
    return child["pid"], child["restarts"]


async def test_telegram_brings_a_bots_updates_to_its_webhook(town: Town, port: int) -> None:
    await answers(town.cleo)
    await answers(town.ben)  # the other bot asks for its own
    bot = town.telegram.bot(ANNEX)
    assert bot.webhook.url.endswith("/telegram/annex") and bot.webhook.last_error is None
    assert not [call for call in bot.calls if call.method == "getUpdates"]
    after = town.cleo.newest
    async with httpx2.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{port}/telegram/annex"
        update = bot.mailbox.history[-1].as_json()
        wrong = await client.post(url, json=update, headers={SECRET_HEADER: "guessed"})
        none = await client.post(url, json=update)
        again = await client.post(url, json=update, headers={SECRET_HEADER: HOOK_SECRET})
        other = await client.get(f"http://127.0.0.1:{port}/v1/dms/console/messages")
    codes = [answer.status_code for answer in (wrong, none, again, other)]
    assert codes == [401, 401, 200, 401]
    await answers(town.cleo)
    said = [m.text for i, m in town.cleo.user.chat.messages.items() if m.from_bot and i > after]
    assert said == [SAID]  # what came a second time was not answered a second time


async def test_a_new_token_is_taken_without_a_restart_and_nothing_is_lost(town: Town) -> None:
    await answers(town.ben)
    before = gateway_pid(town)
    town.telegram.renew_token(LOBBY, NEW_LOBBY)
    phone = town.phone(BEN, NEW_LOBBY)
    after, unheard = phone.newest, await phone.user.send("who are you?")
    keep_secrets(town.stack.home, {"lobby-token": NEW_LOBBY})
    await asyncio.to_thread(town.stack.run, "secret", "apply")
    await phone.user.until_confirmed(unheard, 120)
    await phone.sees(SAID, after)
    await answers(phone)
    await answers(town.cleo)
    assert gateway_pid(town) == before


async def test_a_bot_is_added_and_removed_by_the_configuration_alone(town: Town) -> None:
    before = gateway_pid(town)
    phone = town.phone(ADA, TOWER)
    update = await phone.user.send("/status")
    bot = {"type": "telegram", "secret": "tower-token", "api_url": town.telegram.api_url}

    def add(config: dict[str, Any]) -> None:
        config["gateways"]["tower"] = bot
        config["dms"]["ada-above"] = {"gateway": "tower", "user_id": str(ADA), "admin": True}

    def remove(config: dict[str, Any]) -> None:
        del config["gateways"]["tower"], config["dms"]["ada-above"]

    keep_secrets(town.stack.home, {"tower-token": TOWER})
    await asyncio.to_thread(town.stack.run, "secret", "apply")
    town.configure(add)
    await apply_config(town)
    await phone.user.until_confirmed(update, 120)
    await phone.sees("No agent is bound")
    assert "main: running" in await phone.asks("/agent list", "main: ")
    town.configure(remove)
    await apply_config(town)
    unheard = await phone.user.send("/agent list")
    await answers(town.cleo)
    assert not town.telegram.bot(TOWER).mailbox.is_confirmed(unheard)
    assert phone.user.chat.bot_texts()[-1].startswith("aide: ")
    assert gateway_pid(town) == before


async def test_a_webhook_gives_way_to_polling_and_the_talk_goes_on(town: Town) -> None:
    def poll(config: dict[str, Any]) -> None:
        del config["gateways"]["annex"]["webhook"]

    town.configure(poll)
    await apply_config(town)
    await answers(town.cleo)
    bot = town.telegram.bot(ANNEX)
    assert bot.webhook.url == ""
    assert [call for call in bot.calls if call.method == "getUpdates"]
