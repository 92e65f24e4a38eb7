"""The pages of the log and of costs and health, in a real Chromium on a stack with a scripted model.

One stack for the module. The agent does some work first; the tests then read, follow, verify and export it.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote_plus

import pytest
import pytest_asyncio
from playwright.async_api import Locator, Route, expect

from choir_common.eventlog.chain import LogHead, event_hash
from choir_common.http.client import make_client
from choir_common.wire.events import Event
from tests.support.chromium import needs_chromium
from tests.support.stored_sessions import connect, session_id, store_session, turn
from tests.support.web_cockpit import Cockpit, hostile_texts, running_cockpit, use_tools
from tests.support.web_page import UNUSED_S
from tests.support.worked_session import decide, set_prices, work

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
LONG = 6_000
"""Events of the longest session."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit() -> AsyncIterator[Cockpit]:
    async with running_cockpit(set_prices) as it:
        await work(it, it.stack.secret("operator-token"))
        await decide(it)
        yield it


def group_of(cockpit: Cockpit, text: str) -> Locator:
    return cockpit.page.locator(".log-group").filter(has_text=text)


def choice(cockpit: Cockpit, label: str) -> Locator:
    """Return the choice with a label, which contains the texts of its options as well."""
    labels = cockpit.page.locator("label.log-filter")
    return labels.filter(has_text=re.compile(f"^{label}")).locator("select")


async def opened(group: Locator) -> Locator:
    """Open a group of the timeline; return it."""
    head = group.locator(".log-group-head")
    if await head.get_attribute("aria-expanded") == "false":
        await head.click()
    return group


async def test_sessions_are_listed_with_their_end_and_one_is_opened(cockpit: Cockpit) -> None:
    events = turn(1, "An old question", "choir.fs.read", {"path": "a"})
    await store_session(cockpit, "ses_old", events, "it was updated to a new image")
    await cockpit.open("log")
    rows = cockpit.page.get_by_role("region", name="Sessions").locator("tbody tr")
    await expect(rows).to_have_count(2)
    old = rows.filter(has_text="ses_old")
    await expect(old).to_contain_text("it was updated to a new image")
    await expect(old).to_contain_text("6 s")
    await expect(rows.filter(has_not_text="ses_old")).to_contain_text("running")
    await cockpit.check("log-sessions")
    await choice(cockpit, "Agent").select_option("main")
    await old.get_by_role("link").click()
    await expect(cockpit.page.get_by_role("heading", level=1)).to_contain_text("ses_old")
    await expect(group_of(cockpit, "An old question")).to_be_visible()


async def test_the_timeline_shows_turns_jobs_and_calls_with_input_result_locks_and_cost(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await cockpit.open("log", await session_id(cockpit))
    job = await opened(
        page.locator(".log-group[data-kind=job]").filter(has_text="Sort fruit.txt by name.")
    )
    await expect(job).to_contain_text("completed")
    await expect(job).to_contain_text("core:sort-fruit")
    await expect(job).to_contain_text("$0.2")
    row = job.locator(".log-row").filter(has_text="choir.fs.write")
    await expect(row).to_contain_text("success")
    await row.get_by_role("button").first.click()
    await expect(row.get_by_role("region", name="Input")).to_contain_text("apple")
    await expect(row.get_by_role("region", name="Result")).to_contain_text("fruit.txt")
    await expect(row.locator(".log-locks")).to_contain_text("exclusive")
    await expect(row).to_contain_text("Duration")
    await row.get_by_text("As stored").click()
    await expect(row.get_by_role("region", name="As stored").first).to_contain_text("hash_prev")
    await cockpit.check("log-session")
    message = await opened(group_of(cockpit, "Please sort my fruit"))
    await expect(message).to_contain_text("1 failed")
    await expect(message).to_contain_text("answered")
    assert await page.locator(".log-lane").count() == 2


async def test_links_lead_from_a_job_to_its_call_and_back_and_to_decisions(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    job = page.locator(".log-group[data-kind=job]")
    await job.locator(".log-meta").get_by_role("link", name="because of call").click()
    call = page.locator(".log-row[data-target=true]")
    await expect(call).to_contain_text("choir.core.spawn")
    await expect(call).to_be_in_viewport()
    await call.get_by_role("link", name="core job sort-fruit").click()
    await expect(page.locator(".log-row[data-target=true]")).to_contain_text("Core job started")
    await job.locator(".log-meta").get_by_role("link", name="report").click()
    await expect(page.locator(".log-row[data-target=true]")).to_contain_text("Report begun")
    await choice(cockpit, "Kind").select_option("approval")
    decision = page.locator(".log-row").filter(has_text="Decision")
    await expect(decision).to_have_count(1)
    await decision.get_by_role("button").first.click()
    await decision.get_by_role("link", name="because of call choir.propose.config_change").click()
    await expect(page.locator(".log-row[data-target=true]")).to_contain_text("choir.propose")
    # the filter would hide the call
    await expect(choice(cockpit, "Kind")).to_have_value("")


async def test_a_question_to_another_agent_is_linked_with_its_message_in_both_logs(
    cockpit: Cockpit,
) -> None:
    asked = {"agent": "bob", "question_id": "q_pears", "session_id": "ses_bob", "answer": "Ripe."}
    asking = turn(1, "Are the pears ripe?", "choir.agent.ask", asked)
    origin = {
        "question_id": "q_pears",
        "agent": "main",
        "session_id": "ses_asks",
        "call_id": "call1",
    }
    answering = [
        *turn(2, "An earlier question", "choir.fs.read", {"path": "a"}),
        *turn(3, "Ripe?", "t", {}),
    ]
    answering[6][2]["wake_up"] = {"summary": "question of main", "question": origin}
    await store_session(cockpit, "ses_asks", asking, "the agent was stopped")
    await store_session(cockpit, "ses_bob", answering, "the agent was stopped")
    page = cockpit.page
    await cockpit.open("log", "ses_asks")
    call = page.locator(".log-row").filter(has_text="choir.agent.ask")
    await call.get_by_role("button").first.click()
    await call.get_by_role("link", name="question to bob").click()
    message = page.locator(".log-row[data-target=true]")
    await expect(message).to_contain_text("Ripe?")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("ses_bob")
    await page.get_by_role("link", name="because of question of main").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("ses_asks")
    await expect(page.locator(".log-row[data-target=true]")).to_contain_text("choir.agent.ask")
    await cockpit.tab.check()


async def test_events_are_filtered_by_kind_lane_and_tool_and_found_by_text(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await cockpit.open("log", await session_id(cockpit))
    rows = page.locator(".log-row")
    await expect(rows.first).to_be_visible()
    await choice(cockpit, "Kind").select_option("failed")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text("choir.fs.read")
    await choice(cockpit, "Kind").select_option("")
    await choice(cockpit, "Lane").select_option("core:sort-fruit")
    await expect(page.locator(".log-group")).to_have_count(1)
    await choice(cockpit, "Tool").select_option("choir.fs.write")
    await expect(rows).to_have_count(1)
    await choice(cockpit, "Lane").select_option("")
    await choice(cockpit, "Tool").select_option("")
    await page.get_by_role("searchbox").fill("REMEMBER more")
    await expect(page.get_by_text("events found")).to_be_visible()
    await expect(rows.first).to_contain_text("Remember more")
    await page.get_by_role("searchbox").fill("no such word")
    await expect(page.get_by_text("No loaded event matches")).to_be_visible()


async def test_a_running_session_is_followed_live(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("log", await session_id(cockpit))
    await page.reload()  # without the filter of the test before
    await expect(page.get_by_text("following live")).to_be_visible()
    call = await cockpit.ask("What is new?")
    group = group_of(cockpit, "What is new?")
    await expect(group).to_contain_text("running")
    use_tools(call, ("choir_fs_read", {"path": "fruit.txt"}))
    answer = await cockpit.model.next_call()
    await expect(group.locator(".log-row").filter(has_text="choir.fs.read")).to_contain_text(
        "success"
    )
    answer.end("Nothing.")
    await expect(group).to_contain_text("answered")
    await expect(page.locator(".log-group").first).to_contain_text("What is new?")


async def test_a_stream_that_the_gateway_dropped_is_resumed_without_gaps_or_repetitions(
    cockpit: Cockpit,
) -> None:
    await cockpit.stack.kill("gateway")
    (await cockpit.ask("After the restart?")).end("Still here.")
    group = await opened(group_of(cockpit, "After the restart?"))
    await expect(group).to_contain_text("answered")
    await expect(group.locator(".log-row").filter(has_text="Still here.")).to_have_count(2)
    await expect(group_of(cockpit, "What is new?")).to_have_count(1)


async def test_events_that_a_resumed_stream_repeats_are_shown_once(cockpit: Cockpit) -> None:
    revisions = await cockpit.page.evaluate("""async () => {
      const base = document.querySelector('script[type=module]').src.replace('app/main.js', '');
      const {SessionLog} = await import(`${base}log/session-log.js`);
      const log = new SessionLog('ses_1');
      const event = (rev) => ({rev, lane: 'edge', type: 'reminded', payload: {turn_id: 't'}, at: ''});
      log.append([event(1), event(2)]);
      log.append([event(2), event(3)]);
      return [log.events.map((it) => it.rev), log.timeline.groups[0].rows.map((it) => it.rev)];
    }""")
    assert revisions == [[1, 2, 3], [1, 2, 3]]


async def test_verify_shows_an_intact_chain_or_where_it_broke(cockpit: Cockpit) -> None:
    page = cockpit.page
    name = await session_id(cockpit)
    await cockpit.open("log", name)
    await page.get_by_role("button", name="Verify").click()
    result = page.locator(".log-verification")
    await expect(result).to_contain_text("Chain intact")
    async with make_client(cockpit.stack.endpoint) as client:
        session = (await client.get(f"/v1/sessions/{name}")).json()
    await expect(result).to_contain_text(session["head_hash"])
    await expect(result).to_contain_text(f"Events{session['head_rev']}")
    await expect(result).to_contain_text("All events are signed")
    await cockpit.check("log-verified")
    connection = await connect(cockpit)
    change = "UPDATE choir_control.session_events SET lane = $2 WHERE session_id = $1 AND rev = 3"
    try:
        await connection.execute(change, "ses_old", "forged")
        await cockpit.open("log", "ses_old")
        await page.get_by_role("button", name="Verify").click()
        await expect(result).to_contain_text("Chain broken")
        await expect(result.get_by_role("link")).to_have_text("Event 3")
        await expect(result).to_contain_text("its content does not match its hash")
        await cockpit.check("log-broken")
        await connection.execute(change, "ses_old", "edge")
    finally:
        await connection.close()


async def test_an_export_keeps_numbers_as_they_are_stored(cockpit: Cockpit) -> None:
    await cockpit.open("log")
    numbers = "[1.0,-0.0,1e-05,0.1,7,12345678901234567890]"
    written = await cockpit.page.evaluate(
        """async (text) => {
            const page = document.querySelector("script[type=module]").src;
            const {parseExactly} = await import(new URL("../log/export.js", page));
            return JSON.stringify(parseExactly(text));
        }""",
        numbers,
    )
    assert written == numbers


async def test_an_export_has_all_events_and_no_secret(cockpit: Cockpit) -> None:
    page = cockpit.page
    name = await session_id(cockpit)
    secret = cockpit.stack.secret("operator-token")
    await cockpit.open("log", name)
    await page.get_by_role("button", name="Export").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Read it before you share it")
    await cockpit.check("log-export")
    async with page.expect_download() as downloading:
        await dialog.get_by_role("button", name="Store the file").click()
    download = await downloading.value
    assert download.suggested_filename == f"{name}.json"
    text = await asyncio.to_thread((await download.path()).read_text)
    file = json.loads(text)
    assert len(file["events"]) == file["session"]["head_rev"] == file["verification"]["head_rev"]
    assert file["verification"]["ok"]
    head = LogHead()
    for item in file["events"]:
        event = Event.model_validate(item)
        assert event.hash_prev == head.hash and event.hash == event_hash(event)
        head = LogHead(event.rev, event.hash)
    assert secret not in text and "the token is [redacted]" in text
    # the file itself names the mask once
    masked = text.count("[redacted]") - 1
    assert masked > 0
    await expect(dialog).to_contain_text(f"Masked secrets: {masked}.")
    await page.keyboard.press("Escape")


@pytest.mark.nightly  # the timeline above loads pages, tests/service/control/test_log_search.py searches
async def test_thousands_of_events_load_in_pages_and_are_searched(cockpit: Cockpit) -> None:
    page = cockpit.page
    events = [
        event
        for number in range(LONG // 6)
        for event in turn(number, f"Question number {number}", "choir.fs.read", {"path": "a"})
    ]
    await store_session(cockpit, "ses_long", events, "it was idle")
    await cockpit.open("log", "ses_long")
    await expect(page.get_by_text("Events 5,001 to 6,000")).to_be_visible()
    assert await page.locator(".log-group").count() == 40
    await page.get_by_role("searchbox").fill("question number 7 ")
    await expect(page.get_by_text("No loaded event matches")).to_be_visible()
    await page.get_by_role("searchbox").fill("number 77")
    await page.get_by_role("button", name="Search 5,000 earlier events, too").click()
    await expect(page.get_by_text("Events 1 to 6,000")).to_be_visible()
    await expect(group_of(cockpit, "Question number 77").last).to_be_visible()
    await cockpit.open("log", "ses_long", "10")
    await expect(page.locator(".log-row[data-target=true]")).to_be_in_viewport()
    # a browser lays out thousands of groups in many seconds: only those around the row are shown
    groups = page.locator(".log-group")
    await expect(groups.first).to_contain_text("Question number 6")
    await expect(groups.last).to_contain_text("Question number 0")
    await page.get_by_role("button", name="Show later").click()
    await expect(groups.first).to_contain_text("Question number 46")
    assert await groups.count() == 47


@pytest.mark.nightly  # other pages show hostile texts by day: page, now, memory
async def test_hostile_texts_of_a_session_run_nothing_and_are_shown(cockpit: Cockpit) -> None:
    page = cockpit.page
    texts = [*hostile_texts(2), "window.broken \u202e is hidden"]
    events = [
        event
        for number, text in enumerate(texts)
        for event in turn(number, text, text[:150], {text[:50]: text}, f"core:{text[:100]}")
    ]
    await store_session(cockpit, "ses_hostile", events, texts[0])
    await cockpit.open("log", "ses_hostile")
    await page.get_by_role("searchbox").fill("window.broken")
    groups = page.locator(".log-group")
    await expect(groups.first).to_be_visible()
    for _ in range(10):
        more = page.get_by_role("button", name="Show earlier")
        if not await more.count():
            break
        await more.click()
        await expect(page.locator(".log-groups")).to_have_attribute("aria-busy", "false")
    assert await groups.count() > 0.7 * len(texts)
    newest = groups.first.locator(".log-group-head mark")
    await expect(newest).to_contain_text("U+202E")
    # all content of the newest groups, with what the calls were given and returned
    await page.locator(".log-row-head").evaluate_all(
        "all => all.slice(0, 60).forEach((it) => it.click())"
    )
    shown = await page.locator(".source").all_text_contents()
    assert len(shown) > 30 and any("<script>window.broken" in text for text in shown)
    await page.locator(".log-lane rect").first.dispatch_event("click")
    inside = page.locator("#main")
    forbidden = "script, iframe, object, embed, form, base, meta, link, style, img, video, audio"
    assert await inside.locator(forbidden).count() == 0
    handlers = await inside.evaluate(
        "it => [...it.querySelectorAll('*')].flatMap((e) => e.getAttributeNames()).filter("
        "(name) => name.startsWith('on') || name === 'style').length"
    )
    assert handlers == 0
    addresses = await inside.locator("a").evaluate_all("all => all.map((it) => it.href)")
    assert all(it.startswith(f"{cockpit.stack.url}/web/#/log") for it in addresses)
    await cockpit.tab.check()


async def test_money_is_shown_by_day_agent_model_and_job(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("cost")
    await expect(page.get_by_text("In this period")).to_be_visible()
    async with make_client(cockpit.stack.endpoint) as client:
        total = (await client.get("/v1/cost")).json()["total"]
        lines = (await client.get("/v1/cost", params={"by": "model"})).json()["lines"]
    assert float(total["cost_usd"]) > 0
    figure = page.locator(".cost-total .panel").first
    await expect(figure).to_contain_text(f"${float(total['cost_usd']):.3f}"[:4])
    for name in ("By agent", "By model", "By core job"):
        await expect(page.get_by_role("region", name=name)).to_contain_text("$")
    await expect(page.get_by_role("region", name="By agent")).to_contain_text("main")
    await expect(page.get_by_role("region", name="By core job").locator("tbody tr")).to_have_count(
        2
    )
    heights = await page.locator(".cost-chart rect:not(.back)").evaluate_all(
        "all => all.map((it) => Number(it.getAttribute('height')))"
    )
    assert len(heights) == 30 and heights[-1] == 100 and set(heights[:-1]) == {0}
    await page.get_by_text("As a table").click()
    await cockpit.check("cost-money")
    await choice(cockpit, "Period").select_option("7")
    await expect(page.locator(".cost-chart .day")).to_have_count(7)
    for label, name in (("Agent", "main"), ("Model", lines[0]["group"])):
        async with page.expect_request(re.compile(f"by=day.*{label.lower()}={quote_plus(name)}")):
            await choice(cockpit, label).select_option(name)
    await expect(page.get_by_role("region", name="By agent")).to_contain_text("main")


@pytest.mark.nightly  # test_money_is_shown_by_day_agent_model_and_job reads the same figures
async def test_budgets_show_what_is_left(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("cost", "budgets")
    day = page.locator("[data-budget=usd_per_day]")
    await expect(day).to_contain_text("left")
    await expect(day).to_contain_text("of $5,000.00 spent today")
    await expect(page.get_by_text("At most $1,000.00 for a core job")).to_be_visible()
    await expect(page.get_by_role("region", name="Running work")).to_contain_text("edge")
    await asyncio.to_thread(cockpit.stack.run, "config", "set", "budgets.usd_per_month", "0.01")
    async with make_client(cockpit.stack.endpoint) as client:
        for step in ("load", "apply"):
            (await client.post(f"/v1/config/{step}")).raise_for_status()
    await page.reload()
    await expect(page.locator("[data-budget=usd_per_month]")).to_contain_text("Used up")
    await cockpit.check("cost-budgets")


async def test_health_shows_services_queues_and_models(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("cost", "health")
    services = page.locator(".cost-list li")
    await expect(services.filter(has_text="postgres")).to_contain_text("up")
    await expect(page.get_by_role("region", name="Agents and queues")).to_contain_text("main")
    await expect(page.get_by_role("region", name="Models")).to_contain_text("no failure")
    await cockpit.check("cost-health")

    async def fail(route: Route) -> None:
        answer = await route.fetch()
        status = await answer.json()
        status |= {"ready": False}
        next(it for it in status["parts"] if it["name"] == "postgres")["ok"] = False
        failure = {
            "model": "m",
            "since": status["agents"][0]["started_at"],
            "words": "no <b>key</b>",
        }
        status["agents"][0]["lanes"][0]["model_failure"] = failure
        await route.fulfill(response=answer, json=status)

    await page.route("**/v1/status", fail)
    await page.reload()
    await expect(services.filter(has_text="postgres")).to_contain_text("down")
    await expect(page.get_by_text("Not ready")).to_be_visible()
    models = page.get_by_role("region", name="Models")
    await expect(models).to_contain_text("failing since")
    await expect(models).to_contain_text("no <b>key</b>")
    await page.unroute("**/v1/status")


@pytest.mark.nightly  # tests/service/control/test_schedules.py tells the runs
async def test_schedules_show_their_last_runs(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("cost", "schedules")
    await expect(page.get_by_text("There is no schedule")).to_be_visible()
    add = ("schedule", "add", "main", "--every", "1h", "--remind", "<b>tea</b> \u202e is ready")
    await asyncio.to_thread(cockpit.stack.run, *add)
    await asyncio.to_thread(cockpit.stack.run, "schedule", "run", "1")
    await page.reload()
    card = page.locator(".cards .panel")
    await expect(card).to_contain_text("<b>tea</b> U+202E is ready")
    await expect(card.get_by_role("list", name="Last runs")).to_contain_text("started by hand")
    await cockpit.check("cost-schedules")


@pytest.mark.nightly  # the tests above read the same pages
async def test_a_page_stays_as_it_is_until_the_next_one_is_loaded(cockpit: Cockpit) -> None:
    page, is_loaded = cockpit.page, asyncio.Event()

    async def hold(route: Route) -> None:
        await is_loaded.wait()
        await route.continue_()

    await page.route("**/memory/page.js", hold)
    await cockpit.open("log", "ses_old")
    await expect(group_of(cockpit, "An old question")).to_be_visible()
    await cockpit.open("memory", "main", "search")
    await expect(page.locator(".pages").get_by_role("link", name="Memory")).to_have_attribute(
        "aria-current", "page"
    )
    await expect(group_of(cockpit, "An old question")).to_be_visible()
    is_loaded.set()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Memory")
    await expect(page).to_have_title(re.compile("Memory – Choir$"))
    assert not [it for it in cockpit.tab.requests if "/v1/sessions/main" in it]


@pytest.mark.nightly  # test_web_now.py counts the requests of an idle page, too
async def test_idle_pages_send_at_most_one_request_in_15_seconds(cockpit: Cockpit) -> None:
    await cockpit.page.clock.install()
    for parts in (
        ("log",),
        ("log", "ses_old"),
        ("cost", "health"),
        ("cost", "budgets"),
        ("setup", "agents"),
    ):
        await cockpit.open(*parts)
        await cockpit.page.reload()
        await expect(cockpit.page.locator(".content-column")).to_be_visible()
        await cockpit.page.wait_for_load_state("networkidle")
        # the clock stands still on a slow machine, too
        await cockpit.page.clock.pause_at(
            await cockpit.page.evaluate("Date.now() / 1000") + UNUSED_S
        )
        sent = await cockpit.tab.count_idle_minute()
        assert len(sent) <= 60 / 15, (parts, sent)
        await cockpit.page.clock.resume()
