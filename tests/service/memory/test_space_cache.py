"""A small space that is searched often is in memory, and no search finds what it no longer contains."""

import asyncio
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from choir_common.wire.memory_search import MemoryHit
from choir_memory.maintenance import prune_store
from choir_memory.maintenance.database_upkeep import DatabaseUpkeep
from choir_memory.search import term_cache
from choir_memory.search.space_cache import SEARCHES_TO_CACHE
from tests.service.memory.conftest import Room, make_search
from tests.service.memory.lived import remember, remember_session
from tests.service.memory.test_growth import HABITS
from tests.service.memory.test_search import embed_all
from tests.support.postgres import PASSWORD

TEXTS = ("the boat leaves at noon", "the walnut tree is old", "a boat and a walnut", "tea at noon")


WORDS = "boat walnut tea noon"
"""A word of each text."""


async def search(room: Room, query: str = WORDS, **more: object) -> list[MemoryHit]:
    return list((await room.ask(query, **more)).hits)


async def found_texts(room: Room, query: str = WORDS, **more: object) -> set[str]:
    return {hit.text for hit in await search(room, query, **more)}


async def fill_cache(room: Room) -> None:
    """Search as often as it takes until the space is in memory: the first search may find it changed."""
    for _ in range(SEARCHES_TO_CACHE + 1):
        await search(room)
    assert room.recall.space_cache.size > 0


@pytest.fixture(autouse=True)
def rare_terms_are_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the terms of these few documents in memory, too."""
    monkeypatch.setattr(term_cache, "MIN_DOCUMENTS", 1)


@pytest.fixture
async def notes(room: Room) -> Room:
    """Some notes with vectors, searched until they are in memory."""
    for number, text in enumerate(TEXTS):
        await room.put(text, key=f"note-{number}")
    await embed_all(room)
    await fill_cache(room)
    return room


async def test_a_space_is_read_at_the_third_search_and_answers_as_before(room: Room) -> None:
    await remember_session(room, "s", "mid_term", *TEXTS)
    await remember_session(room, "t", "mid_term", *TEXTS[1:], "boat " * 600)
    # its second sentence has a vector of its own, which does not count for relevance
    mixed = "How is the weather in the valley today? Boat walnut tea noon."
    await remember(room, "s", len(TEXTS), mixed, kind="turn", origin="user")
    await embed_all(room)
    fields: dict[str, object] = {"store": "session", "min_trust": 1, "kinds": ("turn",)}
    scopes: tuple[dict[str, object], ...] = ({}, {"exclude_session": "t"}, {"session_id": "s"})
    for more in scopes:
        expected = await search(room, WORDS, **fields, **more)
        await search(room, WORDS, **fields, **more)
        before = room.recall.space_cache.size
        for _ in range(3):
            hits = await search(room, WORDS, **fields, **more)
            assert [hit.document_id for hit in hits] == [hit.document_id for hit in expected]
            for hit, other in zip(hits, expected, strict=True):
                assert hit.score == pytest.approx(other.score, abs=1e-5)
                assert hit.relevance == pytest.approx(other.relevance, abs=1e-5)
                assert [(arm.arm, arm.rank) for arm in hit.arms] == [
                    (arm.arm, arm.rank) for arm in other.arms
                ]
        assert room.recall.space_cache.size > before


async def test_other_words_and_vectors_are_searched_in_the_same_memory(notes: Room) -> None:
    size = notes.recall.space_cache.size
    for query in ("walnut", "tea", "quokka"):
        hits = await search(notes, query)
        # one arm is left out, so this search is not the one in memory
        alone = await search(notes, query, arms=("text",))
        assert {hit.text for hit in alone} <= {hit.text for hit in hits}
    assert notes.recall.space_cache.size == size


@pytest.mark.parametrize("arms", [("vector",), ("text",), ("vector", "text")])
async def test_an_erased_document_is_not_found(notes: Room, arms: tuple[str, ...]) -> None:
    assert TEXTS[0] in await found_texts(notes, TEXTS[0], arms=arms)
    await notes.put(None, operation="delete", key="note-0")
    assert TEXTS[0] not in await found_texts(notes, TEXTS[0], arms=arms)
    await fill_cache(notes)
    assert await found_texts(notes) == set(TEXTS[1:])


async def test_a_new_document_and_its_vector_are_found_at_once(notes: Room) -> None:
    await notes.put("a boat of walnut wood")
    assert "a boat of walnut wood" in await found_texts(notes)
    await fill_cache(notes)
    await embed_all(notes)
    (hit,) = [hit for hit in await search(notes) if hit.text == "a boat of walnut wood"]
    assert "vector" in {arm.arm for arm in hit.arms}


async def test_a_change_that_commits_late_is_seen(notes: Room) -> None:
    other = await asyncpg.connect(notes.dsn, password=PASSWORD)
    try:
        change = other.transaction()
        await change.start()
        await other.execute(
            "UPDATE choir_main.knowledge_documents SET status = 'retired', retired_at = now() "
            "WHERE key = 'note-0'"
        )
        # another change, so that the space is read again while the first one is uncommitted
        await notes.put(None, operation="delete", key="note-3")
        await fill_cache(notes)
        assert await found_texts(notes) == set(TEXTS[:3])
        await change.commit()
        assert await found_texts(notes) == set(TEXTS[1:3])
    finally:
        await other.close()


async def test_a_change_that_is_rolled_back_changes_nothing(notes: Room) -> None:
    size = notes.recall.space_cache.size
    with pytest.raises(RuntimeError):
        async with notes.database.transaction() as held:
            await held.execute("DELETE FROM choir_main.knowledge_documents")
            raise RuntimeError
    assert await found_texts(notes) == set(TEXTS)
    assert notes.recall.space_cache.size == size


async def test_what_expires_is_not_found_later(room: Room) -> None:
    for text in TEXTS[1:]:
        await room.put(text)
    end = datetime.now(UTC) + timedelta(seconds=4)
    await room.put(TEXTS[0], valid_to=end)
    await embed_all(room)
    await fill_cache(room)
    assert TEXTS[0] in await found_texts(room)
    await asyncio.sleep((end - datetime.now(UTC)).total_seconds() + 0.1)
    assert await found_texts(room) == set(TEXTS[1:])


@pytest.mark.parametrize("command", ["VACUUM FULL", "VACUUM", "ANALYZE"])
async def test_upkeep_of_tables_does_not_mix_up_documents(notes: Room, command: str) -> None:
    await notes.database.execute("DELETE FROM choir_main.knowledge_documents WHERE key = 'note-1'")
    expected = [hit.text for hit in await search(notes)]
    assert len(expected) == len(TEXTS) - 1
    await fill_cache(notes)
    await notes.database.execute(f"{command} choir_main.knowledge_documents")
    assert [hit.text for hit in await search(notes)] == expected


async def test_changes_are_recorded_once_per_transaction_and_deleted_later(
    notes: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = "SELECT count(*) FROM choir_memory.space_changes WHERE agent_id = 'main'"
    before = await notes.database.fetchval(count)
    async with notes.database.transaction() as held:
        for _ in range(3):
            await held.execute("UPDATE choir_main.knowledge_documents SET trust = trust")
    assert await notes.database.fetchval(count) == before + 1
    assert await found_texts(notes) == set(TEXTS)
    upkeep = DatabaseUpkeep(notes.database, HABITS)
    await upkeep.round()
    assert await notes.database.fetchval(count) == before + 1
    monkeypatch.setattr(prune_store, "CHANGES_KEPT_S", 0.0)
    await upkeep.round()
    assert await notes.database.fetchval(count) == 0
    assert await found_texts(notes) == set(TEXTS)


async def test_nothing_is_in_memory_without_memory_for_it(room: Room) -> None:
    room.recall = make_search(room.database, room.spaces, room.embedders, cache_bytes=0)
    await room.put(TEXTS[0])
    await embed_all(room)
    for _ in range(SEARCHES_TO_CACHE + 1):
        assert await found_texts(room) == {TEXTS[0]}
    assert room.recall.space_cache.size == 0
