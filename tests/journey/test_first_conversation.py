"""A person types, an agent answers: over the socket, over HTTP, through Telegram, and with choirctl."""

import asyncio
import json
from collections.abc import Iterator

import asyncpg
import httpx2
import pytest

from choir_testing.telegram import run_fake_telegram
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
    EmbeddedStack,
    console_user,
    running_stack,
    running_stack_in_thread,
    sessions_of,
    verify,
)


@pytest.fixture
def page() -> Iterator[str]:
    with serving_a_page() as address:
        yield address


@pytest.fixture
def stack(page: str) -> Iterator[EmbeddedStack]:
    with running_stack(SCORE, env={"CHOIR_BROWSER_ALLOW": page}) as stack:
        leave_a_note(stack)
        yield stack


@needs_chromium
async def test_over_the_socket_and_a_flipped_bit_is_found(stack: EmbeddedStack, page: str) -> None:
    async with console_user(stack.endpoint) as user:
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
@pytest.mark.nightly
async def test_over_http_with_the_operator_token(stack: EmbeddedStack, page: str) -> None:
    async with console_user(stack.url, token=stack.secret("operator-token")) as user:
        await hold_conversation(stack, user.asks, page)
    await check_logs(stack)
    async with httpx2.AsyncClient(base_url=stack.url, trust_env=False) as stranger:
        assert (await stranger.get("/v1/agents")).status_code == 401


@pytest.mark.nightly  # tests/service/choirctl/test_smoke.py talks with it
async def test_with_choirctl_alone(stack: EmbeddedStack) -> None:
    answer = await asyncio.to_thread(stack.run, "chat", "-m", "read the note")
    assert NOTE in answer
    agents = json.loads(await asyncio.to_thread(stack.run, "agent", "list", "--json"))
    assert [agent["agent_id"] for agent in agents] == ["main"]


@needs_chromium
@pytest.mark.nightly
async def test_through_telegram(page: str) -> None:
    async with run_fake_telegram() as telegram:
        prepare = Prepare(telegram.api_url)
        async with running_stack_in_thread(
            SCORE, env={"CHOIR_BROWSER_ALLOW": page}, prepare=prepare
        ) as stack:
            leave_a_note(stack)
            person = telegram.user(TELEGRAM_USER, BOT_TOKEN)

            async def ask(text: str) -> str:
                await person.send(text)
                return str((await person.receive(60)).text)

            await hold_conversation(stack, ask, page)
            await check_logs(stack)
