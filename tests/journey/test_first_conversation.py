"""A person types, an agent answers: over the socket, over HTTP, through Telegram, and with choirctl."""

import asyncio
import json
from collections.abc import Iterator

import asyncpg
import httpx2
import pytest

from choir_common.testing.telegram import run_fake_telegram
from tests.journey.conversation import (
    NOTE,
    SCORE,
    check_logs,
    hold_conversation,
    leave_a_note,
    serving_a_page,
)
from tests.journey.phone import BOT_TOKEN, TELEGRAM_USER, Prepare
from tests.support.chromium import needs_chromium
from tests.support.stack import (
    Stack,
    running_stack,
    sessions_of,
    starting_stack,
    user_at,
    verify,
)


@pytest.fixture
def page() -> Iterator[str]:
    with serving_a_page() as address:
        yield address


@pytest.fixture
def stack(page: str) -> Iterator[Stack]:
    with running_stack(SCORE, env={"CHOIR_BROWSER_ALLOW": page}) as stack:
        leave_a_note(stack)
        yield stack


@needs_chromium
async def test_over_the_socket_and_a_flipped_bit_is_found(stack: Stack, page: str) -> None:
    async with user_at(stack.endpoint) as user:
        await hold_conversation(stack, user.asks, page)
    await check_logs(stack)

    session = (await sessions_of(stack))[0]["session_id"]
    connection = await asyncpg.connect(stack.dsn, password=stack.secret("postgres-admin"))
    try:
        changed = await connection.execute(
            "UPDATE choir_control.session_events SET payload = "
            "replace(payload::text, 'ferry', 'fERry')::json WHERE session_id = $1 "
            "AND payload::text LIKE '%ferry leaves%'",
            session,
        )
    finally:
        await connection.close()
    assert changed != "UPDATE 0"
    verdict = await verify(stack, session)
    assert not verdict.ok
    assert verdict.broken_at is not None
    said = json.loads(stack.run("session", "verify", session, "--json", check=False))
    assert said["broken_at"] == verdict.broken_at


@needs_chromium
async def test_over_http_with_the_operator_token(stack: Stack, page: str) -> None:
    async with user_at(stack.url, token=stack.secret("operator-token")) as user:
        await hold_conversation(stack, user.asks, page)
    await check_logs(stack)
    async with httpx2.AsyncClient(base_url=stack.url, trust_env=False) as stranger:
        assert (await stranger.get("/v1/agents")).status_code == 401


async def test_with_choirctl_alone(stack: Stack) -> None:
    answer = await asyncio.to_thread(stack.run, "chat", "-m", "read the note")
    assert NOTE in answer
    agents = json.loads(await asyncio.to_thread(stack.run, "agent", "list", "--json"))
    assert [agent["agent_id"] for agent in agents] == ["main"]


@needs_chromium
async def test_through_telegram(page: str) -> None:
    async with run_fake_telegram() as telegram:
        prepare = Prepare(telegram.api_url)
        async with starting_stack(
            SCORE, env={"CHOIR_BROWSER_ALLOW": page}, prepare=prepare
        ) as stack:
            leave_a_note(stack)
            person = telegram.user(TELEGRAM_USER, BOT_TOKEN)

            async def ask(text: str) -> str:
                await person.says(text)
                return str((await person.hears(60)).text)

            await hold_conversation(stack, ask, page)
            await check_logs(stack)
