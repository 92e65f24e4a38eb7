"""`/reset`, `/forget` and the end by inactivity incognito: a real agent on a real control and memory."""

from typing import Any

import pytest

from tests.service.control.test_continuity import RecordingModel
from tests.service.control.test_forgetting import home, make_memory, model, until_erased
from tests.service.control.test_idle_end import let_it_be, sweep
from tests.service.control.test_memory_modes import (
    CANARY,
    ask,
    files_with,
    session_view,
    switch,
    tables_with,
)
from tests.service.control.test_real_agent import pid_of
from tests.service.control.test_suspended import apply, edit
from tests.service.control.world import World, until

__all__ = ["home", "make_memory", "model"]
pytestmark = pytest.mark.timeout(600)


async def current(world: World) -> str:
    return str((await world.get("/v1/agents/main")).json()["session_id"])


async def carry_out(world: World, path: str, **body: object) -> dict[str, Any]:
    """Look at a preview and carry it out; return the preview."""
    answer = await world.post(f"/v1/agents/main/{path}", json=body)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    chosen = {**body, "expected_digest": shown["memory"]["digest"]}
    done = await world.post(f"/v1/agents/main/{path}", json=chosen)
    assert done.status_code == 200, done.text
    await pid_of(world)
    return shown


@pytest.mark.nightly  # test_forgetting.py resets, and test_memory_modes.py erases what was said incognito
@pytest.mark.parametrize("kind", ["history", "all"])
async def test_a_reset_incognito_erases_at_once_and_continues_neither_conversation(
    home: World, model: RecordingModel, kind: str
) -> None:
    await ask(home, "the harmless word")
    local = await current(home)
    await switch(home, "incognito")
    private = await current(home)
    await ask(home, f"my secret is {CANARY}")
    assert "harmless" in str(model.prompts[-1])

    shown = await carry_out(home, "reset", kind=kind)
    assert shown["logs"] == [private] and shown["memory"]["total"] == 0
    assert [CANARY in message["text"] for message in shown["messages"]] == [True, False]
    # without another message
    await until_erased(home, private)
    assert await tables_with(home.database, CANARY) == []
    second = await current(home)
    view = await session_view(home, second)
    assert (view.memory_mode, view.continues) == ("incognito", private)
    await ask(home, "and now?")
    assert CANARY not in str(model.prompts[-1]) and "harmless" not in str(model.prompts[-1])

    # a restart continues the conversation that was reset
    assert (await home.post("/v1/agents/main/restart")).status_code == 200
    await ask(home, "after a restart?")
    assert "and now?" in str(model.prompts[-1]) and "harmless" not in str(model.prompts[-1])
    # the recorded conversation was not reset
    back = await switch(home, "local")
    assert (await session_view(home, back["session_id"])).continues == local
    await ask(home, "back")
    assert "harmless" in str(model.prompts[-1]) and "and now?" not in str(model.prompts[-1])
    await until_erased(home, second)
    assert files_with(home.home, CANARY) == []


@pytest.mark.nightly
async def test_a_period_is_forgotten_incognito_and_the_conversation_goes_on_with_the_rest(
    home: World, model: RecordingModel
) -> None:
    await ask(home, "the harmless word")
    local = await current(home)
    await switch(home, "incognito")
    private = await current(home)
    await ask(home, "the first word")
    since = await home.database.fetchval("SELECT now()")
    await ask(home, f"my secret is {CANARY}")
    shown = await carry_out(home, "memory/forget", since=since.isoformat())
    assert (shown["conversation"], shown["logs"]) == ("rest", [private])
    await ask(home, "what do you know?")
    words = str(model.prompts[-1])
    assert "harmless" in words and "the first word" in words and CANARY not in words
    await until_erased(home, private)
    assert await tables_with(home.database, CANARY) == []
    assert (await home.get(f"/v1/sessions/{local}/events")).status_code == 200


@pytest.mark.nightly
async def test_an_incognito_session_that_ends_by_inactivity_is_continued_and_then_erased(
    home: World, model: RecordingModel
) -> None:
    def end_when_idle(config: dict[str, Any]) -> None:
        config["agents"]["main"]["idle_end"] = {"after_ms": 60_000}

    edit(home, end_when_idle)
    await apply(home)
    await switch(home, "incognito")
    first = await current(home)
    await ask(home, f"my secret is {CANARY}")
    await let_it_be(home, 2)

    async def ended() -> bool:
        await sweep(home)
        return await current(home) not in (first, "None")

    await until(ended)
    await pid_of(home)
    second = await session_view(home, await current(home))
    assert (second.memory_mode, second.continues) == ("incognito", first)
    await ask(home, "do you still know it?")
    assert CANARY in str(model.prompts[-1])
    await until_erased(home, first)
    await switch(home, "local")
    await until_erased(home, second.session_id)
    assert await tables_with(home.database, CANARY) == []
