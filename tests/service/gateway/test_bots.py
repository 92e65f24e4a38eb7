"""Bots that are not configured: control, and nobody else, asks who they are and who writes to them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from choir_common.http.client import make_client
from choir_local.nats import EmbeddedNats
from choir_testing.telegram import ErrorResponse, FakeTelegram, TooManyRequests
from tests.service.gateway.control_stand_in import ControlStandIn
from tests.support.service_process import ServiceProcess, service_process

GATEWAY_TOKEN = "gateway-token-of-the-test"
TOKEN = "555:token-of-a-new-bot"


@pytest.fixture
async def bare(nats: EmbeddedNats, control: ControlStandIn) -> AsyncIterator[ServiceProcess]:
    """A gateway that was started without any bot's token."""
    async with service_process("choir_gateway", nats.url) as process:
        process.secrets = {"gateway_token": GATEWAY_TOKEN}
        await process.start()
        yield process
        assert await process.stop() == 0, process.log
        assert TOKEN not in process.log


async def ask(
    gateway: ServiceProcess, path: str, body: object, token: str = GATEWAY_TOKEN
) -> httpx2.Response:
    async with make_client(gateway.endpoint) as client:
        return await client.post(
            path,
            content=json.dumps(body),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )


def access(telegram: FakeTelegram, **more: object) -> dict[str, Any]:
    telegram.bot(TOKEN)
    return {"token": TOKEN, "api_url": telegram.api_url, **more}


async def test_a_bot_is_known_by_its_token(bare: ServiceProcess, telegram: FakeTelegram) -> None:
    bot = telegram.bot(TOKEN)
    bot.webhook.url = "https://other.example/hook"
    found = await ask(bare, "/v1/bots/identify", access(telegram))
    assert found.json() == {"username": "bot_555", "webhook_url": "https://other.example/hook"}
    removed = await ask(bare, "/v1/bots/remove-webhook", access(telegram))
    assert removed.json() == {"username": "bot_555", "webhook_url": ""}
    assert bot.webhook.url == ""


async def test_messages_are_read_until_they_are_confirmed(
    bare: ServiceProcess, telegram: FakeTelegram
) -> None:
    ada = telegram.user(7, TOKEN)
    first = await ada.send("the code")
    await ada.edit(ada.last_sent(), "another text")
    last = await ada.send_file("photo", "p.jpg", b"x")
    seen = (await ask(bare, "/v1/bots/messages", access(telegram))).json()
    texts = [(m["update_id"], m["user_id"], m["user_name"], m["text"]) for m in seen["messages"]]
    assert texts == [(first, "7", "Person 7", "the code"), (last, "7", "Person 7", "")]
    assert seen["last"] == last
    again = (await ask(bare, "/v1/bots/messages", access(telegram, after=first))).json()
    assert [m["update_id"] for m in again["messages"]] == [last]
    assert telegram.bot(TOKEN).mailbox.is_confirmed(first)
    nothing = (await ask(bare, "/v1/bots/messages", access(telegram, after=last))).json()
    assert nothing == {"messages": [], "last": None}


@pytest.mark.parametrize(
    ("status", "description", "expected"),
    [
        (401, "Unauthorized", 400),
        (409, "Conflict: terminated by other getUpdates request", 409),
        (502, "Bad Gateway", 503),
    ],
)
async def test_each_refusal_of_telegram_is_an_error_of_its_own(
    bare: ServiceProcess,
    telegram: FakeTelegram,
    status: int,
    description: str,
    expected: int,
) -> None:
    telegram.script("getUpdates", ErrorResponse(status, description), token=TOKEN)
    refused = await ask(bare, "/v1/bots/messages", access(telegram))
    assert refused.status_code == expected and TOKEN not in refused.text


async def test_a_rate_limit_says_when_to_try_again(
    bare: ServiceProcess, telegram: FakeTelegram
) -> None:
    telegram.script("getMe", TooManyRequests(7), token=TOKEN)
    refused = await ask(bare, "/v1/bots/identify", access(telegram))
    assert refused.status_code == 429 and refused.headers["retry-after"] == "7"


@pytest.mark.parametrize("path", ["identify", "messages", "remove-webhook"])
async def test_nobody_but_control_asks_and_no_token_is_quoted(
    bare: ServiceProcess, telegram: FakeTelegram, path: str
) -> None:
    stranger = await ask(bare, f"/v1/bots/{path}", access(telegram), token="guessed")
    assert stranger.status_code == 401
    for body in ({"token": [TOKEN]}, {"token": TOKEN, "more": 1}, TOKEN):
        refused = await ask(bare, f"/v1/bots/{path}", body)
        assert refused.status_code == 400 and TOKEN not in refused.text
    assert not telegram.bot(TOKEN).calls
