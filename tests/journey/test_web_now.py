"""The pages `now` and `approvals`: agents at work, steered from the page, and decisions on what they ask for.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from choir_common.approvals import request_digest, request_lines
from choir_common.wire.model import JsonObject
from tests.support.chromium import needs_chromium
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import Cockpit, running_cockpit
from tests.support.web_page import WebTab
from tests.support.xss_corpus import PAYLOADS, xss_corpus

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
FORBIDDEN = "script, iframe, object, embed, form, base, meta, link, style, video, audio, img"
SNEAKY = "list the\u200b files \u202egpj.exe\u2066 of p\u0430ypal"
"""A zero-width space, an override of the writing direction, and a Cyrillic letter."""
UNTIL_DONE = "while [ ! -e done ]; do sleep 0.1; done; echo finished"
HOSTILE_TASK = "Count the boats.\n" + "\n".join(PAYLOADS) + SNEAKY


def with_prices(config: dict[str, Any]) -> None:
    config["models"]["default"]["prices"] = {"input": 2000, "output": 4000}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit() -> AsyncIterator[Cockpit]:
    async with running_cockpit(with_prices) as made:
        yield made


def use_tools(call: StreamedCall, *calls: tuple[str, Mapping[str, Any]]) -> None:
    """Answer a model's call with tool calls."""
    for number, (name, arguments) in enumerate(calls):
        function = {"name": name.replace(".", "_"), "arguments": json.dumps(arguments)}
        identity = {"id": f"call_{id(call)}_{number}", "type": "function"}
        delta = {"tool_calls": [{"index": number, **identity, "function": function}]}
        call.write({"choices": [{"index": 0, "delta": delta}]})
    call.write({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    call.end()


async def propose(cockpit: Cockpit, value: int) -> None:
    """Let the agent propose a setting."""
    call = await cockpit.ask(f"Remember {value} events")
    change = {"patch": {"event_window": value}, "reason": "to remember more"}
    use_tools(call, ("choir.propose.config_change", change))
    (await cockpit.model.next_call()).end("I have asked.")


def lane(cockpit: Cockpit, name: str) -> Locator:
    return cockpit.page.get_by_role("article", name=name, exact=True)


async def next_calls(cockpit: Cockpit, count: int) -> dict[str, StreamedCall]:
    """Return the next model calls, by the words that only the prompt of one lane begins with."""
    found: dict[str, StreamedCall] = {}
    for _ in range(count):
        call = await cockpit.model.next_call()
        words = json.dumps(call.body["messages"])
        is_edge = "Start both jobs" in words
        found["edge" if is_edge else "count" if "Count the boats" in words else "wait"] = call
    assert len(found) == count
    return found


async def test_an_agent_without_work_is_idle(cockpit: Cockpit) -> None:
    (await cockpit.ask("hello")).end("Hello!")
    await cockpit.page.get_by_role("link", name="Now").click()
    await expect(cockpit.page.get_by_role("heading", name="Now 0 of 1 busy")).to_be_visible()
    await expect(cockpit.page.get_by_role("heading", name="main running")).to_be_visible()
    await expect(lane(cockpit, "Conversation console")).to_contain_text("idle")
    await expect(lane(cockpit, "Conversation console")).to_contain_text("15 tokens · $0.04")
    await expect(lane(cockpit, "Conversation console").get_by_text("Stop answer")).to_have_count(0)
    await cockpit.check("now-idle")


async def test_jobs_are_live_with_tool_lock_holder_budget_and_money(cockpit: Cockpit) -> None:
    call = await cockpit.ask("Start both jobs")
    jobs = (
        {"job_name": "wait-for-it", "task_spec": "Wait for the file."},
        {"job_name": "count-boats", "task_spec": HOSTILE_TASK},
    )
    use_tools(call, *(("choir.core.spawn", job) for job in jobs))
    calls = await next_calls(cockpit, 3)
    await expect(lane(cockpit, "Job wait-for-it")).to_contain_text("thinking")
    use_tools(calls["wait"], ("choir.exec", {"command": UNTIL_DONE}))
    holder = lane(cockpit, "Job wait-for-it")
    await expect(holder).to_contain_text("Runs choir.exec")
    await expect(holder).to_contain_text("Holds workspace")
    await expect(holder).to_contain_text("15 tokens · $0.04")
    await expect(holder.get_by_text("Time left")).to_be_visible()
    use_tools(calls["count"], ("choir.exec", {"command": "echo 7"}))
    waiter = lane(cockpit, "Job count-boats")
    await expect(waiter).to_contain_text("waits for a lock")
    await expect(waiter).to_contain_text(
        "Waits for the exclusive lock workspace held by Job wait-for-it"
    )
    await expect(lane(cockpit, "Conversation console")).to_contain_text("thinking")
    await cockpit.check("now-busy")

    # the task of the other job is hostile: it is words, and what hides in them is spelled out
    task = waiter.locator(".task")
    await expect(task.locator("mark", has_text="U+202E").first).to_be_attached()
    words = await task.text_content() or ""
    assert all(text in words for text in PAYLOADS if text.isascii())
    assert await cockpit.page.locator("main").locator(FORBIDDEN).count() == 0
    await cockpit.tab.check()

    await cockpit.page.get_by_role("link", name="Approvals").click()
    await cockpit.page.get_by_role("link", name="Now").click()
    # what the jobs do is known again, from the newest events
    await expect(waiter).to_contain_text("held by Job wait-for-it")
    calls["edge"].say("Both jobs ")


async def test_an_instruction_reaches_the_turn(cockpit: Cockpit) -> None:
    talk = lane(cockpit, "Conversation console")
    await talk.get_by_role("button", name="Instruct").click()
    dialog = cockpit.page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Send")).to_be_disabled()
    await dialog.get_by_label("Instruction").fill("Count them twice")
    await dialog.get_by_role("button", name="Send").click()
    await expect(dialog).to_have_count(0)
    await talk.get_by_role("button", name="Stop answer").click()
    await expect(dialog).to_contain_text("Core jobs continue")
    await cockpit.check("now-stop")
    await dialog.get_by_role("button", name="Keep working").click()
    await expect(dialog).to_have_count(0)


async def test_a_job_is_cancelled_after_a_question(cockpit: Cockpit) -> None:
    job = lane(cockpit, "Job count-boats")
    await job.get_by_role("button", name="Cancel job").click()
    dialog = cockpit.page.get_by_role("dialog")
    await expect(dialog).to_contain_text("what it has not reported is lost")
    await dialog.get_by_role("button", name="Cancel job").click()
    await expect(job).to_contain_text("cancelled")
    await expect(job.get_by_role("button")).to_have_count(0)


async def test_a_report_is_a_progress_card_and_the_lock_passes_on(cockpit: Cockpit) -> None:
    (cockpit.stack.home / "workspaces" / "main" / "done").touch()
    call = await cockpit.model.next_call()
    while "Wait for the file." not in json.dumps(call.body["messages"][:3]):
        assert "Count them twice" in json.dumps(call.body["messages"])
        call.end("Noted.")
        call = await cockpit.model.next_call()
    report = {"kind": "progress", "body": {"summary": "The file <b>is</b> there."}}
    use_tools(call, ("choir.core.report", report))
    job = lane(cockpit, "Job wait-for-it")
    await expect(job).to_contain_text("The file <b>is</b> there.")
    await cockpit.tab.check()
