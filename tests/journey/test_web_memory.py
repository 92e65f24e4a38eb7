"""The page of an agent's memory in a real Chromium, on a memory that was imported.

One stack and one browser for the whole module; each test continues in the state that the one before it left.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
import pytest_asyncio
from playwright.async_api import Locator, expect

from choir_common.http.client import make_client
from tests.service.memory import documents
from tests.support.chromium import needs_chromium
from tests.support.web_cockpit import EVERY_LOOK, Cockpit, hostile_texts, running_cockpit

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_chromium]
SESSION = "ses_0001kite"
DAY = "2024-05-15"
KITE = "The blue kite lies in the attic, behind the old piano."


def an_id(name: str) -> str:
    """Return the id of an imported document."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def turn(name: str, speaker: str, text: str, *, place: int, day: str = DAY) -> dict[str, Any]:
    """Return a message of the imported session."""
    at = f"{day}T09:{place:02d}:00Z"
    return {
        "type": "session", "id": an_id(name), "session_id": SESSION, "tier": "mid_term", "chunk_index": place,
        "first_rev": place + 1, "last_rev": place + 1, "text": text, "created_at": at, "happened_at": at,
        "kind": "turn", "speaker": speaker, "origin": "user" if speaker != "main" else "agent", "trust": 70,
        "conversations": ["console"],
    }  # fmt: skip


def summary(grain: str, period: str, start: str, text: str) -> dict[str, Any]:
    """Return a summary of a period."""
    return {
        "type": "session", "id": an_id(f"{grain} {period}"), "tier": "grain_summary", "chunk_index": 0,
        "text": text, "created_at": f"{start}T00:00:00Z", "happened_at": f"{start}T00:00:00Z", "grain": grain,
        "period": period, "kind": "summary", "origin": "derived", "trust": 70, "conversations": [],
    }  # fmt: skip


def knowledge(name: str, text: str, **fields: Any) -> dict[str, Any]:
    """Return a document of knowledge."""
    at = "2024-05-15T10:00:00Z"
    return {
        "type": "knowledge", "id": an_id(name), "text": text, "created_at": at, "updated_at": at,
        "origin": "user", "trust": 70, "conversations": [], **fields,
    }  # fmt: skip


def link(one: str, kind: str, other: str) -> dict[str, Any]:
    """Return a link between two documents."""
    return {"type": "link", "from_id": an_id(one), "kind": kind, "to_id": an_id(other)}


RECORDS = [
    turn("asked", "Ada", "Where did we put the blue kite?", place=0),
    turn("told", "Ada", KITE, place=1),
    turn("noted", "main", "Good to know, I will remember the attic.", place=2),
    turn("moved", "Ada", "I live in Lyon since the summer, no longer in Turin.", place=3),
    summary("day", DAY, DAY, "Ada spoke of a blue kite and of her move to Lyon."),
    summary("week", "2024-W20", "2024-05-13", "A week of kites, pianos and boxes."),
    summary("month", "2024-05", "2024-05-01", "May was the month of the move."),
    summary("quarter", "2024-Q2", "2024-04-01", "The spring went by with packing."),
    summary("year", "2024", "2024-01-01", "2024 was the year in which Ada moved to Lyon."),
    knowledge("turin", "Ada lives in Turin.", kind="fact", category="home", subject="Ada",
              predicate="lives in", object="Turin", status="retired", retired_at="2024-05-15T10:00:00Z",
              status_before="active", valid_from="2019-01-01T00:00:00Z", valid_to="2024-05-15T00:00:00Z"),
    knowledge("lyon", "Ada lives in Lyon.", kind="fact", category="home", subject="Ada", predicate="lives in",
              object="Lyon", evidence="I live in Lyon since the summer", valid_from="2024-05-15T00:00:00Z",
              seen_count=3),
    knowledge("rule", "Answer in metric units.", kind="rule"),
    knowledge("kite note", f"Kites: {KITE}", kind="note", key="kites", metadata={"project": "attic"}),
    link("lyon", "evidence", "moved"),
    link("lyon", "supersedes", "turin"),
    link(f"day {DAY}", "rolls_up", "told"),
    link("week 2024-W20", "rolls_up", f"day {DAY}"),
]  # fmt: skip


async def bring_in(cockpit: Cockpit, name: str, records: list[dict[str, Any]]) -> None:
    """Import records into the agent's memory."""
    async with make_client(cockpit.stack.endpoint) as client:
        answer = await client.post(
            "/v1/agents/main/memory/import",
            json={"import_id": name, "first": 0, "total": len(records), "records": records},
            timeout=60,
        )
        assert answer.status_code == 200 and answer.json()["refused"] == [], answer.text


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cockpit() -> AsyncIterator[Cockpit]:
    async with running_cockpit() as running:
        await bring_in(running, "records", RECORDS)
        yield running


def hits(cockpit: Cockpit) -> Locator:
    return cockpit.page.get_by_role("region", name="Results").locator("ol > li")


async def search(cockpit: Cockpit, words: str) -> None:
    await cockpit.page.get_by_role("searchbox", name="Search memory").fill(words)
    await cockpit.page.keyboard.press("Enter")


async def test_a_search_shows_hits_and_why_they_were_found(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_role("link", name="Memory").click()
    await expect(page.get_by_role("heading", name="Memory")).to_be_visible()
    await search(cockpit, "blue kite attic")
    best = hits(cockpit).filter(has_text=KITE)
    await expect(best).to_have_count(1)
    await expect(best.get_by_text("user, trust 70")).to_be_visible()
    await best.get_by_text("Why it was found").click()
    words = best.get_by_role("row", name=re.compile("^Words 1 "))
    await expect(words).to_be_visible()
    await page.get_by_role("button", name="Receipt").click()
    receipt = page.get_by_role("dialog", name="Receipt")
    await expect(receipt.get_by_role("heading", name="Documents by signal")).to_be_visible()
    await expect(receipt.get_by_role("region", name="Hits")).to_contain_text("Words")
    await cockpit.check("memory-receipt")
    await page.keyboard.press("Escape")
    await expect(receipt).to_be_hidden()
    await cockpit.check("memory-search")


@pytest.mark.nightly  # test_a_search_shows_hits_and_why_they_were_found filters, too
async def test_each_filter_of_a_search_reaches_memory(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_text("Filters", exact=True).click()
    async with page.expect_request("**/memory/search") as asked:
        for name, value in (
            ("since", "2024-05-01"), ("until", "2024-05-31"), ("min_score", "0.1"), ("min_trust", "60"),
            ("tags", "a=1, b=x"), ("scopes", "work"), ("origins", "user"), ("speakers", "Ada"),
            ("session_id", SESSION), ("limit", "5"), ("max_days_ago", "100000"),
        ):  # fmt: skip
            await page.locator(f".memory-filters [name={name}]").fill(value)
        await page.get_by_label("Message", exact=True).check()
        await page.get_by_label("Recent sessions").check()
        await page.get_by_label("Show the messages before and after").check()
        await search(cockpit, "kite")
    sent = (await asked.value).post_data_json
    assert sent == {
        "store": "session", "query": "kite", "explain": True, "mode": "semantic", "since": "2024-05-01",
        "until": "2024-05-31", "min_score": 0.1, "min_trust": 60, "tags": {"a": 1, "b": "x"},
        "scopes": ["work"], "origins": ["user"], "speakers": ["Ada"], "session_id": SESSION, "limit": 5,
        "max_days_ago": 100_000, "kinds": ["turn"], "tiers": ["mid_term"], "context": True,
    }  # fmt: skip
    await expect(page.get_by_text("Nothing was found.")).to_be_visible()
    await cockpit.check("memory-filters")
    await page.locator("[name=tags]").fill("nothing")
    await search(cockpit, "kite")
    await expect(page.get_by_role("alert")).to_contain_text("“nothing” is not a tag")
    await page.get_by_role("button", name="Clear filters").click()
    await page.get_by_label("Show the messages before and after").check()
    await page.locator("[name=limit]").fill("1")
    await search(cockpit, "behind the old piano")
    await expect(hits(cockpit).first).to_contain_text("I will remember the attic")
    await page.get_by_label("Store").select_option("knowledge")
    await search(cockpit, "kites")
    await expect(hits(cockpit).first).to_contain_text("kites")


async def test_a_fact_shows_its_evidence_and_what_it_replaced(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_role("link", name="Knowledge").click()
    listed = page.get_by_role("list", name="Knowledge").get_by_role("listitem")
    await expect(listed).to_have_count(3)
    await page.get_by_label("Also replaced, held and expired").check()
    await expect(listed).to_have_count(4)
    await expect(listed.filter(has_text="Turin").get_by_text("replaced")).to_be_visible()
    await cockpit.check("memory-knowledge")
    await page.get_by_label("Kinds").select_option("fact")
    await expect(listed).to_have_count(2)
    await page.get_by_label("Also replaced, held and expired").uncheck()
    await expect(listed).to_have_count(1)
    await listed.get_by_role("link", name="Open").click()
    await expect(page.get_by_role("heading", name="Fact", exact=True)).to_be_visible()
    await expect(
        page.get_by_role("blockquote").filter(has_text="I live in Lyon since")
    ).to_be_visible()
    source = page.get_by_role("listitem").filter(has_text="no longer in Turin")
    log = source.get_by_role("link", name=re.compile("Session"))
    await expect(log).to_have_attribute("href", f"#/log/{SESSION}")
    steps = page.get_by_role("list", name="History").get_by_role("listitem")
    await expect(steps).to_have_count(2)
    await expect(steps.first).to_contain_text("valid Jan 1, 2019 to May 15, 2024")
    await expect(steps.last).to_contain_text("this document")
    await cockpit.check("memory-fact")
    await steps.first.get_by_role("link", name="Open").click()
    await expect(page.get_by_text("Turin", exact=True)).to_be_visible()


async def test_knowledge_is_added_edited_and_retired(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("memory", "main", "knowledge")
    await page.get_by_role("button", name="Add knowledge").click()
    dialog = page.get_by_role("dialog", name="Add knowledge")
    await dialog.get_by_label("Text").fill("The heating is serviced each October.")
    await dialog.get_by_role("textbox", name=re.compile("^Key")).fill("house/heating")
    await dialog.get_by_label("Metadata").fill("[1]")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("not a JSON object")
    await dialog.get_by_label("Metadata").fill('{"project": "house"}')
    await cockpit.check("memory-editor")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("heading", name="Note", exact=True)).to_be_visible()
    await expect(page.get_by_text("house/heating")).to_be_visible()
    await page.get_by_role("button", name="Edit").click()
    dialog = page.get_by_role("dialog", name="Edit")
    await dialog.get_by_label("Text").fill("The heating is serviced each September.")
    await dialog.get_by_label("Valid until").fill("2099-12-31")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("each September")).to_be_visible()
    await expect(page.get_by_text("valid until Jan 1, 2100")).to_be_visible()
    await expect(page.get_by_text("It was edited: this is version 2")).to_be_visible()
    await page.get_by_role("button", name="Retire").click()
    await expect(page.get_by_role("button", name="Make active")).to_be_visible()
    await expect(page.get_by_text("retired", exact=True)).to_be_visible()


@pytest.mark.nightly  # tests/service/memory/test_grains.py lists summaries by date
async def test_the_calendar_leads_from_the_year_to_the_day(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("memory", "main", "calendar", "2024")
    await expect(page.get_by_text("the year in which Ada moved")).to_be_visible()
    await page.get_by_role("link", name="Quarter 2, 2024, has a summary").click()
    await expect(page.get_by_text("The spring went by")).to_be_visible()
    await cockpit.check("memory-year")
    await page.get_by_role("link", name="May 2024, has a summary").click()
    await expect(page.get_by_text("May was the month of the move.")).to_be_visible()
    await page.get_by_role("link", name="Week 20, 2024, has a summary").click()
    await expect(page.get_by_text("A week of kites")).to_be_visible()
    await page.get_by_role("link", name="May 15, 2024, has a summary").click()
    await expect(page.get_by_text("Ada spoke of a blue kite")).to_be_visible()
    await expect(page.get_by_role("list", name="What was said").get_by_text(KITE)).to_be_visible()
    await cockpit.check("memory-day")
    await page.get_by_role("link", name="May 16, 2024").click()
    await expect(page.get_by_text("There is no summary of this period.")).to_be_visible()
    await page.get_by_role("link", name="Earlier").click()
    await expect(page.get_by_role("heading", name="April 2024").first).to_be_visible()


async def test_files_are_uploaded_and_removed_and_a_folder_is_followed(
    cockpit: Cockpit, tmp_path: Path
) -> None:
    page = cockpit.page
    await cockpit.open("memory", "main", "collections")
    await expect(page.get_by_text("There is no collection yet.")).to_be_visible()
    secret = cockpit.stack.secret("operator-token")
    documents.write_pdf(tmp_path / "bill.pdf", f"{secret} francs")
    bill = (tmp_path / "bill.pdf").read_bytes()
    upload = page.locator("form", has=page.get_by_role("heading", name="Upload files"))
    await upload.get_by_label("Name of the collection").fill("manuals")
    await upload.get_by_label("Files, or drop them here").set_input_files(
        [
            {"name": "boiler.md", "mimeType": "text/markdown", "buffer": b"# Boiler\nPress twice."},
            {"name": "scan.pdf", "mimeType": "application/pdf", "buffer": b"%PDF\xff\xfe"},
            {"name": "bill.pdf", "mimeType": "application/pdf", "buffer": bill},
            {"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG\xff\xfe" * 500_000},
        ]
    )
    await upload.get_by_role("button", name="Upload").click()
    await expect(upload.get_by_text("added, parts: 1")).to_have_count(2)
    await expect(upload.get_by_text("scan.pdf is not a PDF that can be read")).to_be_visible()
    await expect(upload.get_by_text("photo.png is not of a kind that is read.")).to_be_visible()
    hits = await asyncio.to_thread(cockpit.stack.run, "memory", "search", "main", "francs")
    assert "[redacted] francs" in hits
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "garden.md").write_text("The roses need water on Sundays.")
    follow = page.locator("form", has=page.get_by_role("heading", name="Follow a folder"))
    await follow.get_by_label("Name of the collection").fill("garden")
    await follow.get_by_label("Absolute path of the folder").fill(str(notes))
    await follow.get_by_role("button", name="Follow").click()
    garden = page.get_by_role("article").filter(has_text="garden")
    await expect(garden.get_by_text("Up to date")).to_be_visible()
    await expect(garden.get_by_text("Documents: 1, parts: 1")).to_be_visible()
    await cockpit.check("memory-collections")
    await page.get_by_role("link", name="manuals").click()
    await page.get_by_role("button", name="Remove boiler.md").click()
    await cockpit.check("memory-remove")
    await page.get_by_role("button", name="Remove it permanently").click()
    await expect(page.get_by_role("row").filter(has_text="boiler.md")).to_have_count(0)
    await page.get_by_role("button", name="Remove bill.pdf").click()
    await page.get_by_role("button", name="Remove it permanently").click()
    await expect(page.get_by_text("There are no such documents.")).to_be_visible()
    await cockpit.open("memory", "main", "collections")
    await garden.get_by_role("button", name="Remove the collection").click()
    await page.get_by_role("button", name="Remove it permanently").click()
    await expect(page.get_by_text("There is no collection yet.")).to_be_visible()


async def test_what_was_brought_up_is_shown_with_the_reason(cockpit: Cockpit) -> None:
    page = cockpit.page
    call = await cockpit.ask("Where does the blue kite lie, behind which piano?")
    call.end("In the attic.")
    await cockpit.open("memory", "main", "reminders")
    message = page.locator(".memory-list > li").filter(has_text="Where does the blue kite lie")
    brought = message.get_by_role("list").get_by_role("listitem")
    await expect(brought.filter(has_text="Answer in metric units.")).to_be_visible()
    await expect(brought.filter(has_text=KITE).first).to_be_visible()
    await message.get_by_role("button", name="Why?").click()
    await expect(message.get_by_text("rules come with every message")).to_be_visible()
    reason = brought.filter(has_text=KITE).first.get_by_text(
        re.compile(r"Found by the search\. .*Words 0")
    )
    await expect(reason).to_be_visible()
    await cockpit.check("memory-reminders")
    await message.get_by_role("button", name="Receipt 1").click()
    await expect(page.get_by_role("dialog").get_by_role("region", name="Hits")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="Log of the session").hover()
    address = await page.get_by_role("link", name="Log of the session").get_attribute("href")
    assert address is not None and address.startswith("#/log/")


async def test_mode_and_recall_are_switched_and_the_audit_says_who_did_what(
    cockpit: Cockpit,
) -> None:
    page = cockpit.page
    await page.get_by_role("link", name="Overview").click()
    recall = page.get_by_role("group", name="Recall")
    await expect(recall.get_by_role("button", name="Default")).to_have_attribute(
        "aria-pressed", "true"
    )
    await recall.get_by_role("button", name="Off").click()
    await expect(page.get_by_text("is off")).to_be_visible()
    mode = page.get_by_role("group", name="Memory mode")
    await mode.get_by_role("button", name="Incognito").click()
    dialog = page.get_by_role("dialog", name="Switch the memory mode")
    await expect(dialog).to_contain_text("the log is erased when the session ends")
    await dialog.get_by_role("button", name="Cancel").click()
    await mode.get_by_role("button", name="Synced").click()
    await dialog.get_by_role("button", name="Switch to Synced").click()
    await expect(mode.get_by_role("button", name="Synced")).to_have_attribute(
        "aria-pressed", "true"
    )
    await recall.get_by_role("button", name="On").click()
    await expect(page.get_by_text("is on")).to_be_visible()
    audit = page.get_by_role("region", name="Audit log")
    await expect(audit.get_by_role("row").filter(has_text="operator").first).to_be_visible()
    async with page.expect_download() as stored:
        await page.get_by_role("button", name="Export memory").click()
    assert (await stored.value).suggested_filename == "main-memory.jsonl"
    await cockpit.check("memory-overview")


async def test_what_was_learned_is_taken_back_and_the_source_stays(cockpit: Cockpit) -> None:
    page = cockpit.page
    await cockpit.open("memory", "main", "document", an_id("moved"))
    await expect(page.get_by_role("listitem").filter(has_text="Ada lives in Lyon.")).to_be_visible()
    await page.get_by_role("button", name="Undo what was learned from it").click()
    dialog = page.get_by_role("dialog", name="Take back what was learned")
    await expect(dialog.get_by_role("row").filter(has_text="Ada lives in Lyon.")).to_contain_text(
        "Derived from it alone"
    )
    await expect(dialog.get_by_text("Older documents that are active again: 1.")).to_be_visible()
    await cockpit.check("memory-undo")
    await dialog.get_by_role("button", name="Erase permanently").click()
    await expect(dialog).to_be_hidden()
    await expect(page.get_by_text("no longer in Turin")).to_be_visible()
    await expect(page.get_by_text("Ada lives in Lyon.")).to_have_count(0)
    await cockpit.open("memory", "main", "knowledge", "fact")
    listed = page.get_by_role("list", name="Knowledge").get_by_role("listitem")
    await expect(listed).to_have_count(1)
    await expect(listed).to_contain_text("Ada lives in Turin.")


async def test_forgetting_shows_what_goes_along_and_erases_exactly_that(cockpit: Cockpit) -> None:
    page = cockpit.page
    await page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog", name="Forget")
    await dialog.get_by_role("textbox", name=re.compile("^Words")).fill("zeppelin")
    await dialog.get_by_role("button", name="Show what goes along").click()
    await expect(dialog.get_by_text("Memory has nothing of it.")).to_be_visible()
    await expect(dialog.get_by_role("button", name="Erase permanently")).to_be_disabled()
    await dialog.get_by_role("button", name="Change the selection").click()
    await dialog.get_by_label("Choose by").select_option("time")
    await expect(dialog.locator("[name=since]")).to_be_visible()
    await dialog.get_by_label("Choose by").select_option("session")
    await expect(dialog.locator("[name=session_id]")).to_be_visible()
    await dialog.get_by_label("Choose by").select_option("document")
    await dialog.get_by_label("Id or key of the document").fill(an_id("told"))
    await cockpit.check("memory-forget")
    await dialog.get_by_role("button", name="Show what goes along").click()
    rows = dialog.get_by_role("row")
    await expect(rows.filter(has_text=KITE).filter(has_text="Selected")).to_be_visible()
    await expect(rows.filter(has_text="Ada spoke of a blue kite")).to_contain_text(
        "Derived from it alone"
    )
    await cockpit.check("memory-forget-preview")
    # what changes between the preview and the confirmation is not erased unseen
    async with make_client(cockpit.stack.endpoint) as client:
        other = await client.delete(f"/v1/agents/main/memory/documents/{an_id('week 2024-W20')}")
        assert other.status_code == 200
    await dialog.get_by_role("button", name="Erase permanently").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await expect(dialog.get_by_role("row").filter(has_text="A week of kites")).to_have_count(0)
    await dialog.get_by_role("button", name="Erase permanently").click()
    await expect(dialog).to_be_hidden()
    await cockpit.open("memory", "main", "document", an_id("told"))
    await expect(page.get_by_role("alert")).to_contain_text("There is no document")


async def test_hostile_texts_names_and_keys_run_nothing(cockpit: Cockpit) -> None:
    page = cockpit.page
    texts = hostile_texts(0)[:: 1 if EVERY_LOOK else 2]
    said = texts[:40]
    names = [re.sub(r"[\x00-\x1f\x7f]", " ", text)[:90] for text in texts]
    records = [
        knowledge(f"hostile {number}", text, kind="note", key=f"{number} {names[number]}",
                  category=names[number], subject=text, evidence=text, metadata={names[number]: text})
        for number, text in enumerate(texts)
    ] + [
        turn(f"said {number}", names[number], f"zeppelin {text}", place=number + 10, day="2024-06-01")
        for number, text in enumerate(said)
    ] + [
        link(f"hostile {number}", "evidence", f"said {number}") for number in range(len(said))
    ]  # fmt: skip
    await bring_in(cockpit, "hostile", records)
    await cockpit.open("memory", "main", "knowledge", "note")
    listed = page.get_by_role("list", name="Knowledge").get_by_role("listitem")
    for shown in range(50, len(texts), 50):
        await page.get_by_role("button", name="Show more").click()
        await expect(listed.nth(min(shown + 50, len(texts)) - 1)).to_be_attached()
    await expect(page.get_by_text("<script>window.broken=1</script>").first).to_be_visible()
    await cockpit.tab.check()
    for number in (0, 3, 20):
        await cockpit.open("memory", "main", "document", an_id(f"hostile {number}"))
        await expect(page.get_by_role("blockquote").first).to_contain_text("broken")
        await expect(page.get_by_role("listitem").filter(has_text="zeppelin").first).to_be_visible()
    await cockpit.tab.check()
    await cockpit.open("memory", "main", "search")
    await page.get_by_label("Store").select_option("session")
    await search(cockpit, "zeppelin")
    await expect(hits(cockpit).filter(has_text="broken").first).to_be_visible()
    for summary_line in await page.get_by_text("Why it was found").all():
        await summary_line.click()
    await cockpit.tab.check()
    await page.get_by_role("button", name="Forget…").click()
    dialog = page.get_by_role("dialog", name="Forget")
    await dialog.get_by_role("textbox", name=re.compile("^Words")).fill("zeppelin")
    await dialog.get_by_role("button", name="Show what goes along").click()
    await expect(
        dialog.get_by_role("row").filter(has_text="zeppelin").nth(len(said) - 1)
    ).to_be_attached()
    await cockpit.check("memory-hostile")
    await page.keyboard.press("Escape")
    async with make_client(cockpit.stack.endpoint) as client:
        await add_hostile_collections(client, [name.replace("/", "∕") for name in names[:6]])
    await cockpit.open("memory", "main", "collections")
    await expect(page.get_by_role("article").nth(5)).to_be_visible()
    await cockpit.tab.check()
    await page.get_by_role("article").first.get_by_role("heading").get_by_role("link").click()
    await expect(page.get_by_role("region", name="Documents of the collection")).to_be_visible()
    await cockpit.tab.check()
    await cockpit.open("memory", "main", "reminders", "%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E")
    await expect(page.get_by_role("alert")).to_contain_text("There is no session")
    await cockpit.check("memory-hostile-address")


async def add_hostile_collections(client: httpx2.AsyncClient, names: list[str]) -> None:
    """Add a document with a hostile name to collections with hostile names."""
    for name in names:
        path = f"/v1/agents/main/collections/{quote(name, safe='')}"
        answer = await client.post(path, json={"name": name, "text": name})
        assert answer.status_code == 200, answer.text
