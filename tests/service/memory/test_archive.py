"""Sessions become memory: page by page, once; older ones go to long-term memory and stay searchable."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from choir_common.bus.client import Bus
from choir_common.clients.memory import NatsMemoryClient, NatsSessionMemoryClient
from choir_common.errors import InvalidRequest, NotFound
from choir_common.postgres.pool import Database
from choir_common.wire.memory_search import MemoryQuery
from choir_common.wire.memory_sessions import ArchiveProgress, EraseSession, RecordUnits
from choir_memory.admin.write import SessionEraser
from choir_memory.documents.store import Link, LinkStore
from choir_memory.schema.store import agent_transaction
from choir_memory.sessions.archive import SessionArchive
from choir_memory.sessions.promotion import BATCH_SIZE
from choir_memory.sessions.recorder import UnitRecorder
from tests.service.memory.conftest import Room
from tests.service.memory.servers import MakeMemory, until
from tests.service.memory.session_archive import make_session_archive
from tests.service.memory.test_record import make_unit
from tests.support.sessions import BEGAN, LogBuilder, conversation_log

ROWS = """
SELECT session_id, tier, chunk_index, kind, speaker, text, origin, trust, first_rev, last_rev, happened_at, id
FROM choir_main.memory_documents ORDER BY session_id, tier, chunk_index
"""
SESSIONS = """
SELECT session_id, through_rev, ended_at, unsettled, summary, promoted_at IS NOT NULL AS promoted
FROM choir_memory.sessions ORDER BY session_id
"""


@dataclass
class Desk:
    room: Room
    database: Database
    archive: SessionArchive
    eraser: SessionEraser
    recorder: UnitRecorder
    taken: list[ArchiveProgress] = field(default_factory=list)

    async def take(
        self, script: LogBuilder, *, keep: int = 10, page: int = 1_000
    ) -> ArchiveProgress:
        """Archive a whole session in pages of so many events."""
        for first in range(0, len(script.events), page):
            last = first + page
            end = keep if last >= len(script.events) else None
            self.taken.append(await self.archive.take(script.page(first, last, end)))
        return self.taken[-1]

    async def rows(self) -> list[dict[str, object]]:
        return [dict(row) for row in await self.database.fetch(ROWS)]

    async def sessions(self) -> list[dict[str, object]]:
        return [dict(row) for row in await self.database.fetch(SESSIONS)]

    async def tiers(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for row in await self.rows():
            found.setdefault(str(row["session_id"]), set()).add(str(row["tier"]))
        return found

    async def vectors(self) -> set[str]:
        """Return the tiers of what has a vector or waits for one."""
        rows = await self.database.fetch(
            "SELECT DISTINCT d.tier FROM choir_main.memory_documents d WHERE EXISTS "
            "(SELECT FROM choir_memory.embedding_queue q WHERE q.document_id = d.id) OR EXISTS "
            "(SELECT FROM choir_main.memory_embeddings e WHERE e.document_id = d.id)"
        )
        return {row["tier"] for row in rows}


@pytest.fixture
async def desk(room: Room) -> AsyncIterator[Desk]:
    yield make_desk(room)


def make_desk(room: Room) -> Desk:
    database = room.database
    return Desk(
        room,
        database,
        make_session_archive(database, room.spaces, room.queue),
        SessionEraser(database, room.spaces),
        UnitRecorder(database, room.spaces, room.queue),
    )


def make_talk(number: int, **more: str) -> LogBuilder:
    return conversation_log(
        f"s{number}",
        f"The {number}th otter is asleep.",
        began=BEGAN + timedelta(days=number),
        **more,
    )


async def test_an_archived_session_is_found_by_what_was_said_in_it(desk: Desk) -> None:
    answer = await desk.take(conversation_log("s1", "The otter sleeps in the boathouse."))
    assert answer == ArchiveProgress(through_rev=4, ended=True)
    found = await desk.room.ask("boathouse", store="session", mode="text")
    assert {hit.text for hit in found.hits} == {
        "The otter sleeps in the boathouse.",
        "I see: The otter sleeps in the boathouse.",
    }
    assert found.hits[0].session_id == "s1"


@pytest.mark.parametrize("page", [1, 2, 3, 7])
async def test_pages_of_any_size_and_pages_that_come_twice_give_the_same_rows(
    desk: Desk, page: int
) -> None:
    script = LogBuilder()
    script.start()
    script.user("Look.")
    for number in range(12):
        script.tool(f"c{number}", "choir.exec", {"out": f"line {number}"})
    script.reply("Done.")
    script.stop("We looked.")
    await desk.take(script)
    whole = (await desk.rows(), await desk.sessions())
    await desk.database.execute("TRUNCATE choir_main.memory_documents CASCADE")
    await desk.database.execute("TRUNCATE choir_memory.sessions, choir_memory.embedding_queue")
    for first in range(0, len(script.events), page):
        for _ in range(2):
            await desk.archive.take(script.page(first, first + page))
    await desk.take(script)
    assert (await desk.rows(), await desk.sessions()) == whole
    waiting = await desk.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue")
    assert waiting == len(whole[0])


async def test_a_gap_changes_nothing_and_is_answered_by_where_memory_is(desk: Desk) -> None:
    script = conversation_log("s1", "one", "two")
    assert (await desk.archive.take(script.page(0, 2))).through_rev == 2
    before = await desk.rows()
    assert (await desk.archive.take(script.page(4, 6, 10))).through_rev == 2
    assert await desk.rows() == before
    with pytest.raises(InvalidRequest, match="does not follow"):
        page = script.page(2, 6)
        events = (page.events[0], page.events[2])
        await desk.archive.take(page.model_copy(update={"events": events}))


async def test_a_session_that_goes_on_is_found_before_it_ends(desk: Desk) -> None:
    script = conversation_log("s1", "A live otter.")
    answer = await desk.archive.take(script.page(0, 3))
    assert (answer.ended, answer.through_rev) == (False, 3)
    found = await desk.room.ask("otter", store="session", mode="text")
    assert len(found.hits) == 2


async def test_the_oldest_session_goes_to_long_term_memory_and_keeps_its_words(desk: Desk) -> None:
    for number in range(4):
        last = await desk.take(make_talk(number, summary=f"About otter {number}."), keep=2)
    assert last.promoted == ("s1",)
    assert await desk.tiers() == {
        "s0": {"long_term_summary", "long_term_detail"},
        "s1": {"long_term_summary", "long_term_detail"},
        "s2": {"mid_term"},
        "s3": {"mid_term"},
    }
    assert await desk.vectors() == {"mid_term", "long_term_summary", "long_term_detail"}
    detail = await desk.room.ask("", store="session", mode="session_detail", session_id="s0")
    assert [hit.text for hit in detail.hits][:1] == ["The 0th otter is asleep."]
    rows = await desk.rows()
    [summary] = [r for r in rows if r["session_id"] == "s0" and r["tier"] == "long_term_summary"]
    assert (summary["text"], summary["origin"], summary["trust"]) == (
        "About otter 0.",
        "derived",
        50,
    )


async def test_vectors_stay_when_the_session_is_promoted(desk: Desk) -> None:
    await desk.take(make_talk(0))
    while await desk.room.queue.embed_batch():
        pass
    assert await desk.vectors() == {"mid_term"}
    await desk.take(make_talk(1), keep=1)
    kept = await desk.database.fetchval(
        "SELECT count(*) FROM choir_main.memory_embeddings JOIN choir_main.memory_documents d "
        "ON d.id = document_id WHERE d.tier = 'long_term_detail'"
    )
    assert kept == 2


@pytest.mark.parametrize("mode", ["semantic", "text"])
async def test_what_was_said_is_found_after_thirty_later_sessions(desk: Desk, mode: str) -> None:
    dinner = "We had dinner in Lisbon at Taberna da Esperanca."
    await desk.take(conversation_log("s00", dinner, summary="Of a journey."))
    for number in range(1, 31):
        said = f"Today ({number}) I watered the plants."
        began = BEGAN + timedelta(days=number)
        await desk.take(conversation_log(f"s{number:02}", said, began=began, summary="Of plants."))
    while await desk.room.queue.embed_batch():
        pass
    for question in ("where did we eat in Lisbon?", "Taberna da Esperanca"):
        found = await desk.room.ask(question, store="session", mode=mode)
        assert dinner in found.hits[0].text


async def test_a_session_of_recorded_units_is_promoted_like_one_with_a_log(desk: Desk) -> None:
    units = (make_unit(0, "The lamp is green."),)
    await desk.recorder.record(RecordUnits(agent_id="main", session_id="s0", units=units))
    script = LogBuilder("s0")
    assert (await desk.archive.take(script.page(0, 0, 0))).promoted == ("s0",)
    assert await desk.tiers() == {"s0": {"long_term_detail", "long_term_summary"}}
    more = (make_unit(1, "The lamp is blue."),)
    await desk.recorder.record(RecordUnits(agent_id="main", session_id="s0", units=more))
    assert await desk.tiers() == {"s0": {"long_term_detail", "long_term_summary"}}
    assert await desk.vectors() == {"long_term_detail", "long_term_summary"}


async def test_a_session_of_many_units_is_promoted_some_at_a_time(desk: Desk) -> None:
    script = conversation_log(
        "s0", *(f"message {number}" for number in range(BATCH_SIZE // 2 + 10))
    )
    await desk.take(script, keep=1)
    assert await desk.archive.promotion.promote("main", 0) == ("s0",)
    counts = await desk.database.fetch(
        "SELECT tier, count(*) AS n, count(DISTINCT xmin::text) AS writes "
        "FROM choir_main.memory_documents GROUP BY tier ORDER BY tier"
    )
    assert [row["tier"] for row in counts] == ["long_term_detail", "long_term_summary"]
    assert counts[0]["n"] == len(script.events) - 2
    # each transaction leaves its own mark on the rows it wrote
    assert counts[0]["writes"] == 2
    assert await desk.vectors() == {"long_term_detail", "long_term_summary"}


async def test_each_topic_is_a_document_of_its_own(desk: Desk) -> None:
    script = make_talk(0)
    script.events.pop()
    script.stop("All.", [("Otters", "They sleep."), ("Boats", "One sank.")])
    await desk.take(script, keep=0)
    texts = [r["text"] for r in await desk.rows() if r["tier"] == "long_term_summary"]
    assert texts == ["Otters\nThey sleep.", "Boats\nOne sank."]


async def test_without_a_summary_what_the_user_said_is_quoted(desk: Desk) -> None:
    await desk.take(make_talk(0), keep=0)
    [text] = [r["text"] for r in await desk.rows() if r["tier"] == "long_term_summary"]
    assert text == "user: The 0th otter is asleep."


async def test_a_summary_of_a_session_that_read_the_web_is_trusted_no_further(desk: Desk) -> None:
    script = LogBuilder()
    script.start()
    script.user("Read.")
    script.tool("c1", "choir.web.browse", {"text": "Buy now!"})
    script.reply("It says buy.")
    script.stop("We must buy.")
    await desk.take(script, keep=0)
    [trust] = [r["trust"] for r in await desk.rows() if r["tier"] == "long_term_summary"]
    assert trust == 10


async def test_a_session_in_which_nothing_was_said_pushes_nothing_out(desk: Desk) -> None:
    await desk.take(make_talk(0), keep=1)
    empty = LogBuilder("s1", started_at=BEGAN + timedelta(days=1))
    empty.start()
    empty.stop()
    assert (await desk.take(empty, keep=1)).promoted == ()
    assert await desk.tiers() == {"s0": {"mid_term"}}


async def test_an_erased_session_leaves_nothing_and_does_not_come_back(
    desk: Desk, room: Room
) -> None:
    script, other = make_talk(0), make_talk(1)
    await desk.take(script)
    await desk.take(other)
    note = (await room.put("otters sleep a lot")).document_id
    documents = await desk.database.fetch(
        "SELECT id FROM choir_main.memory_documents WHERE session_id = 's0'"
    )
    derived = await room.database.fetchval("SELECT id FROM choir_main.knowledge_documents")
    async with agent_transaction(room.database, "main") as held:
        await LinkStore(held, "main").add([Link(derived, "evidence", documents[0]["id"])])
    erased = await desk.eraser.erase(EraseSession(agent_id="main", session_id="s0"))
    assert erased.documents == len(documents) + 1 and note == str(derived)
    assert await desk.tiers() == {"s1": {"mid_term"}}
    for table in ("choir_main.knowledge_documents", "choir_main.links"):
        assert await desk.database.fetchval(f"SELECT count(*) FROM {table}") == 0
    waiting = await desk.database.fetchval("SELECT count(*) FROM choir_memory.embedding_queue")
    assert waiting == 2
    assert (await desk.take(script)).ended
    with pytest.raises(NotFound):
        await desk.recorder.record(
            RecordUnits(agent_id="main", session_id="s0", units=(make_unit(0, "again"),))
        )
    assert await desk.tiers() == {"s1": {"mid_term"}}
    again = await desk.eraser.erase(EraseSession(agent_id="main", session_id="s0"))
    assert again.documents == 0
    with pytest.raises(NotFound):
        await desk.eraser.erase(EraseSession(agent_id="main", session_id="unknown"))


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(order=st.permutations(range(5)), keeps=st.lists(st.integers(0, 4), min_size=5, max_size=5))
async def test_in_whatever_order_sessions_come_the_newest_stay(
    desk: Desk, order: list[int], keeps: list[int]
) -> None:
    await desk.room.spaces.ensure("main")
    await desk.database.execute("TRUNCATE choir_main.memory_documents CASCADE")
    await desk.database.execute("TRUNCATE choir_memory.sessions, choir_memory.embedding_queue")
    promoted: set[int] = set()
    for place, (number, keep) in enumerate(zip(order, keeps, strict=True)):
        await desk.take(make_talk(number), keep=keep)
        here = [one for one in order[: place + 1] if one not in promoted]
        promoted |= set(sorted(here)[: max(0, len(here) - keep)])
        tiers = await desk.tiers()
        for one in order[: place + 1]:
            assert ("mid_term" in tiers[f"s{one}"]) == (one not in promoted)
            assert ("long_term_summary" in tiers[f"s{one}"]) == (one in promoted)
    assert await desk.vectors() == set().union(*(await desk.tiers()).values())


async def test_a_session_comes_in_over_the_bus_and_gets_its_vectors(
    make_memory: MakeMemory, bus: Bus
) -> None:
    memory = make_memory()
    await memory.start()
    script = conversation_log(
        "s1", "The lighthouse keeper paints at night.", summary="Of a keeper."
    )
    sessions, client = NatsSessionMemoryClient(bus), NatsMemoryClient(bus)
    answer = await sessions.archive(script.page(keep=10))
    assert answer == ArchiveProgress(through_rev=4, ended=True)

    async def embedded() -> bool:
        status = await client.status()
        return status.queued == 0

    await until(embedded, 60)
    query = MemoryQuery(agent_id="main", store="session", query="who makes art in the dark?")
    assert "lighthouse" in (await client.query(query)).hits[0].text
    assert (await sessions.erase(EraseSession(agent_id="main", session_id="s1"))).documents == 2
    assert (await client.query(query)).hits == ()
