"""The pages `now` and `approvals`: agents at work, steered from the page, and decisions on what they ask for.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from choir_common.approvals import request_digest, request_lines
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalKind
from tests.support.chromium import needs_chromium
from tests.support.streaming_model import StreamedCall
from tests.support.web_cockpit import (
    Cockpit,
    ask,
    hostile_texts,
    running_cockpit,
    use_tools,
)
from tests.support.web_page import UNUSED_S, WebTab
from tests.support.xss_corpus import PAYLOADS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
FORBIDDEN = "script, iframe, object, embed, form, base, meta, link, style, video, audio, img"
SNEAKY = "list the\u200b files \u202egpj.exe\u2066 of p\u0430ypal"
"""A zero-width space, an override of the writing direction, and a Cyrillic letter."""
HOSTILE_KINDS = 5
UNTIL_DONE = "while [ ! -e done ]; do sleep 0.1; done; echo finished"
HOSTILE_TASK = "Count the boats.\n" + "\n".join(PAYLOADS) + SNEAKY


ASKED = {"action": "ask", "tools": ["choir.fs.write"], "paths": ["ledger.txt"], "why": "money"}
OPEN_CALLS: dict[str, StreamedCall] = {}
"""Calls of the model that a test leaves to the next one."""
AT_REST = ("EDGE_IDLE", "CORE_COMPLETED", "CORE_TERMINATED")


def prepare(config: dict[str, Any]) -> None:
    """Set a price of the model, and have a person decide on one file."""
    config["models"]["default"]["prices"] = {"input": 2000, "output": 4000}
    config["policy"] = [ASKED]
    config["event_window"] = 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit() -> AsyncIterator[Cockpit]:
    async with running_cockpit(prepare) as made:
        yield made


async def propose(cockpit: Cockpit, value: int) -> None:
    """Let the agent propose a setting."""
    call = await ask(cockpit, f"Remember {value} events")
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


async def all_requests(cockpit: Cockpit) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await cockpit.user.client.get("/v1/approvals")).json()["items"]
    return items


async def config_of(cockpit: Cockpit) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((cockpit.stack.home / "config.json").read_text())
    return config


def hostile_request(
    number: int, texts: list[str]
) -> tuple[str, ApprovalKind, JsonObject, JsonObject]:
    """Return a request with these texts wherever the agent, or what it changes, chooses the words."""
    name, reason = texts[0], "\n".join(texts)
    files: JsonObject = {f"{text[:60]}": text for text in texts}
    contents: dict[ApprovalKind, tuple[JsonObject, JsonObject]] = {
        "config_change": (
            {"patch": {name: {text: text for text in texts}}, "reason": f"{SNEAKY}\n{reason}"},
            {
                "changes": [
                    {"path": [name, text], "before": text, "after": reason} for text in texts
                ]
            },
        ),
        "call": ({"tool": name, "input": {text: text for text in texts}}, {"why": reason}),
        "skill": ({"spec": {"name": name}, "reason": reason}, {"files": files}),
        "tool": ({"manifest": {"llm": {"name": name}}, "reason": reason}, {"files": files}),
        "repo_change": (
            {"branch": name, "reason": reason},
            {"diffstat": reason, "diff": "".join(f"+{text}\n-{text}\n" for text in texts)},
        ),
    }
    kind = list(contents)[number]
    return f"appr_hostile{number}", kind, *contents[kind]


@contextlib.asynccontextmanager
async def database(cockpit: Cockpit) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(
        cockpit.stack.dsn, password=cockpit.stack.secret("postgres-admin")
    )
    try:
        yield connection
    finally:
        await connection.close()


async def insert_requests(
    cockpit: Cockpit,
    requests: list[tuple[str, ApprovalKind, JsonObject, JsonObject]],
    hosts: Sequence[str] = (),
) -> None:
    async with database(cockpit) as connection:
        for approval_id, kind, payload, basis in requests:
            await connection.execute(
                "INSERT INTO choir_control.pending_approvals (approval_id, session_id, agent_id, "
                "call_id, request_type, payload, basis, digest, hosts, dm, gateway) SELECT $1, "
                "session_id, 'main', $1, $2, $3::text::json, $4::text::json, $5, $6, 'console', "
                "'console' FROM choir_control.sessions ORDER BY started_at DESC LIMIT 1",
                approval_id,
                kind,
                json.dumps(payload),
                json.dumps(basis),
                request_digest(kind, payload, basis),
                list(hosts),
            )


async def finish(cockpit: Cockpit) -> None:
    """Answer all calls of the model until the agent is at rest."""
    async with asyncio.timeout(120):
        while True:
            with contextlib.suppress(asyncio.QueueEmpty):
                while True:
                    cockpit.model.calls.get_nowait().end("Done.")
            agent = (await cockpit.user.client.get("/v1/agents/main")).json()
            if all(it["state"] in AT_REST for it in agent["lanes"]):
                return
            await asyncio.sleep(0.05)


async def test_an_agent_without_work_is_idle(cockpit: Cockpit) -> None:
    (await ask(cockpit, "hello")).end("Hello!")
    await cockpit.page.get_by_role("link", name="Now").click()
    await expect(cockpit.page.get_by_role("heading", name="Now 0 of 1 busy")).to_be_visible()
    await expect(cockpit.page.get_by_role("heading", name="main running")).to_be_visible()
    await expect(lane(cockpit, "Conversation console")).to_contain_text("idle")
    await expect(lane(cockpit, "Conversation console")).to_contain_text("15 tokens · $0.04")
    await expect(lane(cockpit, "Conversation console").get_by_text("Stop answer")).to_have_count(0)
    await cockpit.check("now-idle")


async def test_jobs_are_live_with_tool_lock_holder_budget_and_money(cockpit: Cockpit) -> None:
    call = await ask(cockpit, "Start both jobs")
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
    OPEN_CALLS["edge"] = calls["edge"]


async def test_an_instruction_reaches_the_turn(cockpit: Cockpit) -> None:
    talk = lane(cockpit, "Conversation console")
    await talk.get_by_role("button", name="Instruct").click()
    dialog = cockpit.page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Send")).to_be_disabled()
    await dialog.get_by_label("Instruction").fill("Count them twice")
    await dialog.get_by_role("button", name="Send").click()
    await expect(dialog).to_have_count(0)
    use_tools(OPEN_CALLS.pop("edge"), ("choir.core.list", {}))
    call = await cockpit.model.next_call()
    assert "Count them twice" in json.dumps(call.body["messages"])
    await talk.get_by_role("button", name="Stop answer").click()
    await expect(dialog).to_contain_text("Core jobs continue")
    await cockpit.check("now-stop")
    await dialog.get_by_role("button", name="Keep working").click()
    await expect(dialog).to_have_count(0)
    call.end("Noted.")


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
        call.end("Noted.")
        call = await cockpit.model.next_call()
    report = {"kind": "progress", "body": {"summary": "The file <b>is</b> there."}}
    use_tools(call, ("choir.core.report", report))
    job = lane(cockpit, "Job wait-for-it")
    await expect(job).to_contain_text("The file <b>is</b> there.")
    await cockpit.tab.check()
    await finish(cockpit)
    await expect(job).to_contain_text("completed")


async def test_a_request_appears_by_itself_and_its_exact_change_is_approved(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await cockpit.open("approvals")
    await expect(page.get_by_text("Nothing waits for your decision.")).to_be_visible()
    await expect(page.get_by_text("Nothing was decided yet.")).to_be_visible()
    await cockpit.check("approvals-empty")
    await propose(cockpit, 90)
    request = page.get_by_role("listitem").filter(has_text="main wants to change settings")
    await expect(request.locator("code")).to_have_text("event_window")
    await expect(page.get_by_role("link", name="Approvals 1 waiting")).to_be_visible()
    await cockpit.check("approvals-pending")

    await request.get_by_role("link", name="Review event_window").click()
    await expect(page.locator("ins")).to_have_text("+90")
    await expect(page.locator("del")).to_have_text("-60")
    await expect(page.locator(".change")).to_contain_text("reason: to remember more")
    [pending] = [it for it in await all_requests(cockpit) if it["status"] == "pending"]
    await expect(page.locator(".digest")).to_have_text(pending["digest"])
    await expect(page.get_by_role("checkbox")).to_have_count(0)
    await cockpit.check("approvals-settings")
    async with page.expect_request("**/approve") as approving:
        await page.get_by_role("button", name="Approve").click()
    # only what was shown is approved
    decision = {"digest": pending["digest"], "scope": "once"}
    assert (await approving.value).post_data_json == decision
    await expect(page.locator(".question .badge")).to_have_text("applied")
    await expect(page.get_by_role("link", name="Approvals", exact=True)).to_be_visible()
    assert (await config_of(cockpit))["event_window"] == 90


async def test_an_applied_change_is_rolled_back_after_a_question(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_role("button", name="Roll back").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("The settings get their earlier values")
    await cockpit.check("approvals-rollback")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="Roll back").click()
    await dialog.get_by_role("button", name="Roll back").click()
    await expect(page.locator(".question .badge")).to_have_text("rolled back")
    assert (await config_of(cockpit))["event_window"] == 60
    await page.get_by_role("link", name="All requests").click()
    row = page.get_by_role("row").filter(has_text="event_window")
    await expect(row).to_contain_text("rolled back")
    # by which browser, as the list of browsers names it
    [browser] = (await cockpit.user.client.get("/v1/web/sessions")).json()["items"]
    await expect(row).to_contain_text(f"Operator, browser {browser['web_session_id']}")
    assert browser["web_session_id"] in await asyncio.to_thread(
        cockpit.stack.run, "approval", "list", "--all"
    )


async def test_a_tool_waits_for_a_decision_that_may_cover_later_calls(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("now")
    call = await ask(cockpit, "Write into the ledger")
    use_tools(call, ("choir.fs.write", {"path": "ledger.txt", "content": "5 for tea\n"}))
    talk = lane(cockpit, "Conversation console")
    await expect(talk).to_contain_text("waits for you")
    await expect(page.get_by_role("link", name="1 request waits for your decision")).to_be_visible()
    await cockpit.tab.shoot("now-asked")
    await talk.get_by_role("link", name="It waits for your decision").click()
    await expect(page.locator(".change")).to_contain_text("why: money")
    await page.get_by_label("Applies to").select_option("calls from now on")
    await page.get_by_label("Days").fill("3")
    await cockpit.check("approvals-call")
    await page.get_by_role("button", name="Approve").click()
    await expect(page.locator(".question .badge")).to_have_text("approved")
    (await cockpit.model.next_call()).end("It is written.")
    assert (cockpit.stack.home / "workspaces" / "main" / "ledger.txt").read_text() == "5 for tea\n"
    [grant] = (await cockpit.user.client.get("/v1/policy/grants")).json()["items"]
    assert grant["scope"] == "always"
    until = datetime.fromisoformat(grant["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=2.9) < until < timedelta(days=3)


@pytest.mark.nightly  # tests/service/control/test_approvals.py has the refusal
async def test_a_request_that_was_decided_elsewhere_is_refused_and_shown_so(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await propose(cockpit, 70)
    [pending] = [it for it in await all_requests(cockpit) if it["status"] == "pending"]
    await cockpit.open("approvals", pending["approval_id"])
    await expect(page.get_by_role("button", name="Reject")).to_be_visible()
    # another tab of the same browser rejects it
    other = await cockpit.context.new_page()
    await other.clock.install()
    await other.goto(page.url)
    await expect(other.get_by_role("button", name="Reject")).to_be_visible()
    await expect(other.get_by_role("link", name="Approvals 1 waiting")).to_be_visible()
    # its clock stands still: it asks for the list again because of the decision, not after a while
    await other.clock.pause_at(await other.evaluate("Date.now() / 1000") + 1)
    await other.get_by_role("button", name="Reject").click()
    await expect(other.locator(".question .badge")).to_have_text("rejected")
    await expect(other.get_by_role("link", name="Approvals", exact=True)).to_be_visible()
    await other.clock.resume()  # the clock is one of all pages of the context
    await other.close()
    await expect(page.locator(".question .badge")).to_have_text("rejected")
    await expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    await cockpit.open("approvals", "appr_nothing")
    await expect(page.get_by_role("alert")).to_contain_text("There is no approval request")


async def test_a_question_of_an_mcp_server_is_answered_by_its_form(cockpit: Cockpit) -> None:
    fields = {
        "seats": {"type": "integer"},
        "class": {"type": "string", "enum": ["first", "second"]},
        "quiet": {"type": "boolean"},
    }
    form: JsonObject = {"type": "object", "properties": fields, "required": ["seats"]}
    payload: JsonObject = {
        "server": "trains",
        "tool": "book",
        "message": "Which seats?",
        "form": form,
    }
    names = ("appr_question1", "appr_question2")
    await insert_requests(cockpit, [(name, "mcp_question", payload, {}) for name in names])
    page = cockpit.page
    await cockpit.open("approvals", names[0])
    await expect(page.locator(".question")).to_contain_text(
        "An MCP server of main asks you something"
    )
    await expect(page.locator(".change")).to_contain_text("Which seats?")
    await expect(page.get_by_text("The text is the server's")).to_be_visible()
    answer, approve = (
        page.get_by_role("group", name="Your answer"),
        page.get_by_role("button", name="Approve"),
    )
    await page.get_by_role("checkbox").check()
    await expect(approve).to_be_disabled()
    await answer.get_by_label("seats").fill("three")
    await answer.get_by_label("class").select_option("second")
    await cockpit.check("approvals-question")
    await approve.click()
    # what control refuses is said, and nothing is lost
    await expect(page.locator(".toast")).to_contain_text("seats")
    await expect(answer.get_by_label("class")).to_have_value("second")
    await answer.get_by_label("seats").fill("3")
    async with page.expect_request("**/approve") as approving:
        await approve.click()
    sent = (await approving.value).post_data_json
    assert sent is not None and sent["values"] == {"seats": "3", "class": "second"}
    await expect(page.locator(".question .badge")).to_have_text("approved")
    await cockpit.open("approvals", names[1])
    await page.get_by_role("button", name="Close without an answer").click()
    await expect(page.locator(".question .badge")).to_have_text("closed without an answer")


async def test_hostile_requests_are_words_and_nothing_in_them_is_hidden(cockpit: Cockpit) -> None:
    texts = [*hostile_texts(1), SNEAKY]
    assert len(texts) > 50
    requests = [
        hostile_request(number, texts[number::HOSTILE_KINDS]) for number in range(HOSTILE_KINDS)
    ]
    await insert_requests(cockpit, requests, [PAYLOADS[0], SNEAKY])
    page = cockpit.page
    await cockpit.open("approvals")
    await expect(page.get_by_role("listitem").get_by_role("heading")).to_have_count(len(requests))
    await cockpit.check("approvals-hostile-list")
    for approval_id, kind, payload, basis in requests:
        await cockpit.open("approvals", approval_id)
        change = page.locator(".change")
        lines = "".join(f"{line.text}\n" for line in request_lines(kind, payload, basis))
        await expect(page.get_by_text(approval_id, exact=True)).to_be_visible()
        assert await change.text_content() == lines
        main = page.locator("main")
        # the checkbox is the page's own
        assert await main.locator(f"{FORBIDDEN}, input:not([type=checkbox]), svg a").count() == 0
        assert await main.locator("a").evaluate_all(
            "all => all.every((it) => it.getAttribute('href').startsWith('#/'))"
        )
        await cockpit.tab.check()
    await cockpit.open("approvals", requests[0][0])
    notes = page.get_by_role("listitem").filter(has_text="Characters that are invisible")
    await expect(notes).to_contain_text("U+202E right-to-left override")
    await expect(notes).to_contain_text("U+0430 \u0430 (Cyrillic)")
    await cockpit.check("approvals-hostile")
    await expect(page.get_by_role("button", name="Approve")).to_be_disabled()
    await page.get_by_role("checkbox").check()
    await expect(page.get_by_role("button", name="Approve")).to_be_enabled()
    await page.get_by_role("button", name="Reject").click()
    await expect(page.locator(".question .badge")).to_have_text("rejected")
    await finish(cockpit)


async def test_a_request_that_was_changed_after_it_was_stored_cannot_be_approved(
    cockpit: Cockpit,
) -> None:
    changed = "UPDATE choir_control.pending_approvals SET payload = $1 WHERE approval_id = $2"
    async with database(cockpit) as connection:
        payload = {"tool": "choir.exec", "input": {"command": "rm -rf /"}}
        await connection.execute(changed, json.dumps(payload), "appr_hostile1")
    await cockpit.open("approvals", "appr_hostile1")
    await expect(cockpit.page.get_by_text("does not match its digest")).to_be_visible()
    await cockpit.page.get_by_role("checkbox").check()
    await expect(cockpit.page.get_by_role("button", name="Approve")).to_be_disabled()
    await cockpit.tab.check()


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["now", "approvals"])
async def test_an_idle_page_sends_at_most_one_request_in_15_seconds(
    cockpit: Cockpit, name: str
) -> None:
    page = await cockpit.context.new_page()
    tab = WebTab(page, cockpit.stack.url)
    await page.clock.install()
    async with page.expect_response(re.compile("events/stream")):
        await page.goto(f"{cockpit.stack.url}/web/#/{name}")
    await expect(page.get_by_role("heading", level=2).first).to_be_visible()
    # what is fetched again because of the newest events, which a page reads first; from here on
    # the page's clock stands still on a slow machine, too
    await page.clock.pause_at(await page.evaluate("Date.now() / 1000") + UNUSED_S)
    tab.watch()
    # a stream opens again, because its silence is measured with the clock that runs ahead
    sent = await tab.count_idle_minute(("/web/assets/", "/events/stream"))
    assert len(sent) <= 60 / 15, sent
    await page.clock.resume()  # the clock is one of all pages of the context
    await page.close()


@pytest.mark.nightly  # a matter of speed
async def test_a_busy_session_is_drawn_at_most_once_a_second(cockpit: Cockpit) -> None:
    await cockpit.open("now")
    await finish(cockpit)
    await expect(lane(cockpit, "Conversation console")).to_be_visible()
    before, began = len(cockpit.tab.requests), time.monotonic()
    call = await ask(cockpit, "Note sixty things")
    await expect(lane(cockpit, "Conversation console")).to_contain_text("thinking")
    notes = [("choir.memory.query", {"query": f"thing {number}"}) for number in range(60)]
    use_tools(call, *notes)
    (await cockpit.model.next_call()).end("All noted.")
    await expect(lane(cockpit, "Conversation console")).to_contain_text("idle")
    agents = [it for it in cockpit.tab.requests[before:] if it.endswith("/v1/agents")]
    assert 1 <= len(agents) <= time.monotonic() - began + 3
