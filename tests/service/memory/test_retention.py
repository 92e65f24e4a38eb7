"""What an agent does not keep: turns and summaries go by their age, the rest stays."""

from datetime import UTC, datetime

import pytest

from choir_common.wire.memory_config import RetentionConfig
from choir_memory.maintenance.retention import RetentionTask
from choir_memory.schema.lease_store import LeaseStore
from choir_memory.summaries.consolidation import ConsolidationTask
from choir_memory.summaries.summarizer import Summarizer
from tests.service.memory.conftest import Room
from tests.service.memory.derived import SetClock, live_turns
from tests.service.memory.lived import remember
from tests.service.memory.test_search import embed_all

SAID = [
    ("2026-01-05T09:00", "Ana", "The carpenter mends the roof of the barn on Tuesday."),
    ("2026-01-06T09:00", "Ana", "Mimi the cat was at the vet, her left ear is sore."),
    ("2026-03-01T09:00", "Ana", "We moved to Lisbon, near the old harbour."),
]


async def pass_by(room: Room, at: str, **kept: int) -> int:
    """Go round agent `main` at that time; return how many rows were deleted."""
    clock = SetClock(datetime.fromisoformat(at).replace(tzinfo=UTC))
    leases, retention = LeaseStore(room.database, "r1"), {"main": RetentionConfig(**kept)}
    summaries = ConsolidationTask(
        database=room.database,
        spaces=room.spaces,
        leases=leases,
        summarizer=Summarizer(None),
        clock=clock,
        queue=room.queue,
        retention=retention,
    )
    await summaries.run_agent("main")
    task = RetentionTask(database=room.database, leases=leases, clock=clock, retention=retention)
    return await task.run_agent("main")


async def left(room: Room) -> list[str]:
    rows = await room.database.fetch(
        "SELECT coalesce(period, session_id) AS name FROM choir_main.memory_documents"
        " ORDER BY tier, happened_at, ended_at"
    )
    return [row["name"] for row in rows]


async def test_old_turns_go_and_what_they_were_summed_up_to_stays(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, SAID)
    assert await pass_by(room, "2026-03-02T12:00", turns=30) == 2
    rows = await room.database.fetch(
        "SELECT period, text FROM choir_main.memory_documents WHERE grain = 'day' ORDER BY period"
    )
    assert [row["period"] for row in rows] == ["2026-01-05", "2026-01-06", "2026-03-01"]
    assert "roof" in rows[0]["text"]
    assert (await left(room)).count("s1") == 1
    dangling = (
        "SELECT count(*) FROM choir_main.links"
        " WHERE to_id NOT IN (SELECT id FROM choir_main.memory_documents)"
    )
    assert await room.database.fetchval(dangling) == 0


async def test_what_is_gone_is_not_made_again(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, SAID)
    await pass_by(room, "2026-03-02", days=7)
    before = await left(room)
    assert "2026-W02" in before and "2026-01" in before and "2026-01-05" not in before
    assert await pass_by(room, "2026-03-02", days=7) == 0
    assert await left(room) == before
    # what was made of a week that is gone is not needed again either
    assert await pass_by(room, "2026-04-02", days=7, weeks=31) == 3
    before = await left(room)
    assert await pass_by(room, "2026-04-02", days=7, weeks=31) == 0
    assert await left(room) == before


async def test_the_week_outlives_its_days_unchanged(room: Room) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, SAID)
    week = "SELECT text, version FROM choir_main.memory_documents WHERE period = '2026-W02'"
    await pass_by(room, "2026-01-13")
    made = await room.database.fetchrow(week)
    assert made is not None
    for at in ("2026-01-14", "2026-01-20", "2026-02-20"):
        await pass_by(room, at, turns=1, days=7)
        assert await room.database.fetchrow(week) == made


@pytest.mark.parametrize("kept", [{}, {"turns": 10_000}])
async def test_an_agent_that_keeps_everything_loses_nothing(
    room: Room, kept: dict[str, int]
) -> None:
    await room.spaces.ensure("main")
    await live_turns(room.database, SAID)
    assert await pass_by(room, "2040-01-01", **kept) == 0
    assert (await left(room)).count("s1") == len(SAID)


async def test_retention_drops_vectors_of_old_turns_and_they_are_found_by_their_words(
    room: Room,
) -> None:
    old = await remember(room, "s1", 0, "the zeppelin landed")
    new = await remember(room, "s2", 0, "the airship left", happened_at=datetime.now(UTC))
    await embed_all(room)
    vectors = "SELECT document_id FROM choir_main.memory_embeddings"
    assert {row["document_id"] for row in await room.database.fetch(vectors)} == {old, new}
    today = datetime.now(UTC).date().isoformat()
    assert await pass_by(room, today, vectors=30) == 0
    assert {row["document_id"] for row in await room.database.fetch(vectors)} >= {new}
    assert old not in {row["document_id"] for row in await room.database.fetch(vectors)}
    found = await room.ask("zeppelin", store="session")
    assert found.hits[0].text == "the zeppelin landed"
