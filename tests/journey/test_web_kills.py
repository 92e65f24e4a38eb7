"""Control and the gateway are killed while the pages beside the chat are open: each comes back by itself.

One stack and one browser for the whole module, with a tab for each page. Nobody loads a page again: a mark in
each window would be lost.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from tests.support.chromium import needs_chromium
from tests.support.stack import read_log, sessions_of
from tests.support.web_cockpit import Cockpit, ask, running_cockpit, use_tools
from tests.support.web_page import WebTab, open_context, open_tab

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
NOT_YET = "Choir does not answer yet"
MARK = "window.wasNeverLoadedAgain = true"
PARTS_OF_CALLS = ("tool_call_committed", "tool_result_committed")
"""Events that are shown in the row of an earlier one."""
UNIQUE_ROWS = "all => all.map((it) => Number(it.id.slice(4))).sort((a, b) => a - b)"


@dataclass
class Pages:
    """A stack, and a tab of its browser for each page beside the chat."""

    cockpit: Cockpit
    tabs: dict[str, WebTab]
    session: str

    def page(self, name: str) -> Page:
        return self.tabs[name].page

    @contextlib.asynccontextmanager
    async def without(self, child: str) -> AsyncIterator[None]:
        """Kill a process; the supervisor starts it again when the block ends."""
        supervisor = int(self.cockpit.stack.children()["supervisor_pid"])
        os.kill(supervisor, signal.SIGSTOP)
        try:
            await self.cockpit.stack.kill(child)
            yield
        finally:
            os.kill(supervisor, signal.SIGCONT)

    async def expect_as_before(self) -> None:
        """Fail unless every page shows what it showed, and was not loaded again."""
        await expect(self.page("now").get_by_role("article")).to_contain_text("console")
        await expect(self.page("approvals").get_by_text("Nothing waits")).to_be_visible()
        await expect(self.page("log").locator(".log-group").first).to_be_visible()
        await expect(self.page("memory").get_by_label("Search memory")).to_be_visible()
        for tab in self.tabs.values():
            assert await tab.page.evaluate("window.wasNeverLoadedAgain"), tab.page.url
            await tab.check()

    async def expect_news(self, question: str) -> None:
        """Ask for a change, reject it, and fail unless every page shows all of it, once."""
        call = await ask(self.cockpit, question)
        talk = self.page("now").get_by_role("article", name="Conversation console")
        await expect(talk).to_contain_text("thinking")
        change = {"patch": {"event_window": 90}, "reason": question}
        use_tools(call, ("choir.propose.config_change", change))
        (await self.cockpit.model.next_call()).end(f"Asked: {question}")
        approvals = self.page("approvals")
        request = approvals.get_by_role("listitem").filter(has_text="main wants to change settings")
        await expect(request).to_have_count(1)
        waiting = self.page("now").get_by_role("link", name="1 request waits for your decision")
        await expect(waiting).to_be_visible()
        client = self.cockpit.user.client
        [pending] = [
            it
            for it in (await client.get("/v1/approvals")).json()["items"]
            if it["status"] == "pending"
        ]
        (
            await client.post(f"/v1/approvals/{pending['approval_id']}/reject", json={})
        ).raise_for_status()
        (await self.cockpit.model.next_call()).end("Then I leave it.")
        await expect(approvals.get_by_text("Nothing waits")).to_be_visible()
        await expect(talk).to_contain_text("idle")
        await expect(waiting).to_have_count(0)
        await self.expect_whole_log(question)

    async def expect_whole_log(self, question: str) -> None:
        """Fail unless the log's page shows each event of the session once."""
        page = self.page("log")
        group = page.locator(".log-group").filter(has_text=question).first
        await expect(group).to_contain_text("answered")
        closed = page.locator(".log-group-head[aria-expanded=false]")
        await closed.evaluate_all("all => all.forEach((it) => it.click())")
        async with asyncio.timeout(30):
            while True:
                events = await read_log(self.cockpit.stack, self.session)
                stored = [it.rev for it in events if it.type not in PARTS_OF_CALLS]
                rows = await page.locator(".log-row").evaluate_all(UNIQUE_ROWS)
                if rows == stored:
                    return
                assert len(rows) == len(set(rows)), "an event is there twice"
                await asyncio.sleep(0.2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages() -> AsyncIterator[Pages]:
    async with running_cockpit() as cockpit:
        (await ask(cockpit, "hello")).end("Hello!")
        [session] = await sessions_of(cockpit.stack)
        made = Pages(cockpit, {}, session["session_id"])
        for name, parts in (
            ("now", "now"),
            ("approvals", "approvals"),
            ("log", f"log/{made.session}"),
            ("memory", "memory"),
            ("cost", "cost/health"),
            ("setup", "setup"),
        ):
            made.tabs[name] = await open_tab(cockpit.context, f"{cockpit.stack.url}/web/#/{parts}")
            await expect(made.page(name).get_by_role("heading", level=1)).to_be_visible()
            await made.page(name).evaluate(MARK)
        await expect(made.page("log").get_by_text("following live")).to_be_visible()
        await made.expect_as_before()
        yield made


@pytest.mark.nightly  # test_web_page.py kills control below the chat, too
async def test_every_page_outlives_a_kill_of_control(pages: Pages) -> None:
    memory, cost, setup = (pages.page(name) for name in ("memory", "cost", "setup"))
    async with pages.without("control"):
        # what is live says that it is not, and keeps what it had
        await expect(pages.page("log").get_by_text("Reconnecting")).to_be_visible()
        await pages.expect_as_before()
        await memory.get_by_role("link", name="Overview").click()
        await cost.get_by_role("link", name="Budgets", exact=True).click()
        await setup.get_by_role("link", name="Installation").click()
        for page in (memory, cost, setup):
            await expect(page.get_by_role("alert").first).to_contain_text(NOT_YET)
        await cost.get_by_role("link", name="Health", exact=True).click()
        await expect(cost.get_by_role("alert").first).to_contain_text(NOT_YET)
        await pages.tabs["cost"].shoot("kills-cost")
    await expect(memory.get_by_role("heading", name="Audit log")).to_be_visible()
    await expect(memory.get_by_role("group", name="Memory mode")).to_be_visible()
    await expect(cost.get_by_role("heading", name="Services")).to_be_visible()
    await expect(setup.get_by_text(str(pages.cockpit.stack.home), exact=True)).to_be_visible()
    for page in (memory, cost, setup):
        await expect(page.get_by_role("alert")).to_have_count(0)
    await memory.get_by_role("link", name="Search").click()
    await expect(pages.page("log").get_by_text("following live")).to_be_visible()
    await pages.expect_news("Remember more, after control")
    await pages.expect_as_before()


@pytest.mark.nightly
async def test_every_page_outlives_a_kill_of_the_gateway(pages: Pages) -> None:
    async with pages.without("gateway"):
        await pages.expect_as_before()
    await pages.expect_news("Remember more, after the gateway")
    await expect(pages.page("cost").get_by_role("heading", name="Services")).to_be_visible()
    await pages.expect_as_before()


@pytest.mark.nightly  # test_web_page.py loses files, too
async def test_a_page_whose_files_do_not_come_is_there_when_they_do(pages: Pages) -> None:
    cockpit = pages.cockpit
    # a browser that has the files of the chat only
    state = await cockpit.context.storage_state()
    context = await open_context(cockpit.browser, storage_state=state)
    tab = await open_tab(context, f"{cockpit.stack.url}/web/")
    await expect(tab.page.get_by_label("Write a message")).to_be_visible()
    async with pages.without("gateway"):
        async with tab.page.expect_response(lambda it: "/memory/page.js" in it.url and not it.ok):
            await tab.page.get_by_role("link", name="Memory").click()
        # the page asks for itself before it is loaded again
        async with tab.page.expect_response(lambda it: it.url.endswith("/web/") and not it.ok):
            pass
    await expect(tab.page.get_by_role("heading", name="Memory main")).to_be_visible()
    await tab.check()
    await context.close()
