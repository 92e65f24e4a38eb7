"""From a bot's token to an answer on Telegram with one command, and what remains if that fails."""

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from choir_common.http.client import make_client
from choir_testing.telegram import ErrorResponse, FakeTelegram, FakeUser, run_fake_telegram
from tests.journey.conversation import NOTE, SCORE, leave_a_note
from tests.support.preloaded_choirctl import CHOIRCTL
from tests.support.shell import ChoirctlRunner
from tests.support.stack import EmbeddedStack, running_stack_in_thread

TOKEN = "123456:token-from_BotFather"
ADA, STRANGER = 4711, 666
PATIENCE_S = 300.0


@pytest_asyncio.fixture
async def telegram() -> AsyncIterator[FakeTelegram]:
    async with run_fake_telegram() as fake:
        fake.bot(TOKEN)
        yield fake


@pytest_asyncio.fixture
async def stack(telegram: FakeTelegram) -> AsyncIterator[EmbeddedStack]:
    async with running_stack_in_thread(SCORE) as stack:
        leave_a_note(stack)
        yield stack


@pytest.fixture
def shell(stack: EmbeddedStack) -> ChoirctlRunner:
    return ChoirctlRunner(stack.home, stack.env)


async def connections(stack: EmbeddedStack) -> list[dict[str, Any]]:
    async with make_client(stack.endpoint) as client:
        items: list[dict[str, Any]] = (await client.get("/v1/telegram/connections")).json()["items"]
        return items


async def code_of(stack: EmbeddedStack) -> str:
    """Wait for the code, which a person reads on the terminal."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for attempt in await connections(stack):
                if attempt["state"] == "waiting":
                    return str(attempt["code"])
            await asyncio.sleep(0.1)


async def hears(user: FakeUser, words: str) -> None:
    await user.wait_until(lambda chat: words in " ".join(chat.bot_texts()), PATIENCE_S)


def files(stack: EmbeddedStack) -> tuple[Any, Any]:
    """Return config.json and secrets.json."""
    config, secrets = stack.home / "config.json", stack.home / "secrets.json"
    return json.loads(config.read_text()), json.loads(secrets.read_text())


async def test_one_command_leads_from_the_token_to_an_answer(
    stack: EmbeddedStack, shell: ChoirctlRunner, telegram: FakeTelegram
) -> None:
    ada, stranger = telegram.user(ADA, TOKEN), telegram.user(STRANGER, TOKEN)

    async def write_to_the_bot() -> None:
        code = await code_of(stack)
        await stranger.send("hello")
        await stranger.send("/start WRNG-WRNG")
        await ada.send(f"/start {code}")
        await ada.send("read the note")

    def connect() -> str:
        return shell.succeeds(
            "telegram", "connect", "--api-url", telegram.api_url, "--json", given=f"{TOKEN}\n"
        )

    output, _ = await asyncio.gather(asyncio.to_thread(connect), write_to_the_bot())

    first, last = map(json.loads, output.splitlines())
    assert first["link"] == f"https://t.me/bot_123456?start={first['code']}"
    assert (last["state"], last["user_name"], last["wrong_codes"]) == (
        "connected",
        f"Person {ADA}",
        1,
    )
    assert last["remaining"] == []
    await hears(ada, "You are talking to main")
    await hears(ada, NOTE)
    assert not stranger.chat.bot_texts()
    # the code is no message to the agent
    assert not any(first["code"] in text for text in ada.chat.bot_texts())
    config, secrets = files(stack)
    assert secrets["telegram-token"] == TOKEN
    assert config["gateways"]["telegram"]["secret"] == "telegram-token"
    assert config["dms"]["phone"] == {"gateway": "telegram", "user_id": str(ADA), "admin": True}
    assert config["agents"]["main"]["defaults"]["dm"] == "phone"
    again = await asyncio.to_thread(
        shell.fails, 5, "telegram", "connect", "--api-url", telegram.api_url, given=TOKEN
    )
    assert "gateways.telegram" in again
    for log in (stack.home / "logs").glob("*.log"):
        assert TOKEN not in log.read_text(), log


@pytest.mark.nightly  # tests/service/control/test_telegram_connect.py takes steps back, too
async def test_ctrl_c_leaves_nothing_behind(stack: EmbeddedStack, telegram: FakeTelegram) -> None:
    before = files(stack)
    process = await asyncio.create_subprocess_exec(
        str(CHOIRCTL),
        *("telegram", "connect", "--api-url", telegram.api_url),
        env={**os.environ, **stack.env, "CHOIR_HOME": str(stack.home)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(TOKEN.encode())
    process.stdin.close()
    assert process.stderr is not None
    code = await code_of(stack)
    async with asyncio.timeout(PATIENCE_S):
        assert f"Write {code} to @bot_123456" in (await process.stderr.readline()).decode()
    process.send_signal(signal.SIGINT)
    _, shown = await process.communicate()
    assert process.returncode == 130
    assert "Cancelled; nothing was changed." in shown.decode()
    await telegram.user(ADA, TOKEN).send(code)
    assert [attempt["state"] for attempt in await connections(stack)] == ["failed"]
    assert files(stack) == before


@pytest.mark.nightly
async def test_what_the_bot_does_not_allow_is_said_with_its_remedy(
    stack: EmbeddedStack, shell: ChoirctlRunner, telegram: FakeTelegram
) -> None:
    before, connect = files(stack), ("telegram", "connect", "--api-url", telegram.api_url)

    async def refusal(exit_code: int, token: str) -> str:
        return await asyncio.to_thread(shell.fails, exit_code, *connect, given=token)

    assert "@BotFather prints it as" in await refusal(2, "not a token")
    assert "Telegram refuses this token" in await refusal(2, "999:unknown")
    telegram.bot(TOKEN).webhook.url = "https://other.example/hook"
    assert "https://other.example/hook" in await refusal(5, TOKEN)
    telegram.bot(TOKEN).webhook.url = ""
    conflict = ErrorResponse(409, "Conflict: terminated by other getUpdates request")
    telegram.script("getUpdates", *[conflict] * 3, token=TOKEN)
    assert "Another program receives this bot's messages" in await refusal(5, TOKEN)
    telegram.disconnected = True
    assert "cannot reach Telegram" in await refusal(6, TOKEN)
    assert files(stack) == before
