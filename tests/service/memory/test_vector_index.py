"""Nearest vectors by index: what an exact scan finds, and what filters let pass."""

from dataclasses import replace

import pytest

from choir_memory.embedding.embedder import QueryVector, to_halfvec
from choir_memory.maintenance.database_upkeep import DatabaseUpkeep
from choir_memory.schema.store import agent_transaction
from choir_memory.search.candidate_columns_store import CandidateColumns
from choir_memory.search.candidates import ARM_LIMIT
from choir_memory.search.corpus_store import CorpusCache, CorpusStatistics
from choir_memory.search.full_scan_store import scan_space
from choir_memory.search.retrieval import transaction_settings
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.vector_arm_store import VectorResult, search_vectors
from choir_memory.text.splitting import FIRST_SENTENCE_PART
from tests.service.memory.conftest import Room
from tests.service.memory.grown import grow
from tests.service.memory.provider import DIMENSIONS, vector_of
from tests.service.memory.test_growth import HABITS

DOCUMENTS = 2_000
SCOPE = SearchScope("main", "session", ("mid_term",))
SCANNED = CorpusStatistics(0)
"""What makes the arm scan everything."""


@pytest.fixture
async def corpus(room: Room) -> CorpusStatistics:
    """Return what is known of a space that has its index."""
    await grow(room, DOCUMENTS)
    await DatabaseUpkeep(room.database, HABITS).round()
    async with agent_transaction(room.database, "main") as held:
        return await CorpusCache().of(held, SCOPE)


def question(room: Room, text: str = "a question") -> QueryVector:
    (model,) = [one for one, _ in room.embedders.working]
    return QueryVector(model, DIMENSIONS, to_halfvec(vector_of(text)))


async def both(
    room: Room, corpus: CorpusStatistics, scope: SearchScope = SCOPE, text: str = "a question"
) -> tuple[VectorResult, VectorResult]:
    """Ask the arm by index, and by a scan."""
    vector = question(room, text)
    async with agent_transaction(room.database, "main") as held:
        indexed = await search_vectors(held, scope, corpus, vector)
        return indexed, await search_vectors(held, scope, SCANNED, vector)


async def test_the_index_finds_what_a_scan_finds_and_knows_how_near_any_document_is(
    room: Room, corpus: CorpusStatistics
) -> None:
    for text in ("a question", "of another kind", "about the garden"):
        indexed, scanned = await both(room, corpus, text=text)
        nearest = {one.document_id for one in scanned.hits[:10]}
        assert len(nearest & {one.document_id for one in indexed.hits[:10]}) >= 9
        assert indexed.hits[0] == scanned.hits[0]
        assert len(indexed.hits) == len(scanned.hits)
        assert abs(indexed.mean - scanned.mean) < 0.1
        assert abs(indexed.deviation - scanned.deviation) < 0.1


async def test_sentences_count_for_the_nearest_and_not_for_the_mean_of_whole_messages(
    room: Room, corpus: CorpusStatistics
) -> None:
    plain = await both(room, corpus)
    sql = (
        "INSERT INTO choir_main.memory_embeddings (document_id, model, part, embedding) "
        "SELECT document_id, model, $1, $2 FROM choir_main.memory_embeddings"
    )
    near = to_halfvec(vector_of("a question"))
    await room.database.execute(sql, FIRST_SENTENCE_PART, near)
    for before, after in zip(plain, await both(room, corpus), strict=True):
        assert after.mean > before.mean + 0.05
        assert after.whole_mean == pytest.approx(before.whole_mean, abs=0.05)
        assert after.hits[0].score == pytest.approx(1, abs=1e-3)


async def test_a_filter_that_few_pass_still_gets_all_of_them(
    room: Room, corpus: CorpusStatistics
) -> None:
    spoken = replace(SCOPE, speakers=("speaker7",))
    indexed, scanned = await both(room, corpus, spoken)
    assert len(scanned.hits) == DOCUMENTS // 100
    assert {one.chunk_index for one in indexed.hits} == {one.chunk_index for one in scanned.hits}


async def test_the_scan_continues_only_if_the_filters_leave_too_few_and_finds_the_same(
    room: Room, corpus: CorpusStatistics
) -> None:
    for scope, continues in (
        (SCOPE, "off"),
        (replace(SCOPE, speakers=("speaker7",)), "relaxed_order"),
    ):
        for text in ("a question", "of another kind", "about the garden"):
            vector = question(room, text)
            async with agent_transaction(room.database, "main") as held:
                found = await search_vectors(held, scope, corpus, vector)
                assert await held.fetchval("SHOW hnsw.iterative_scan") == continues
            async with agent_transaction(
                room.database,
                "main",
                local_settings=["SET LOCAL hnsw.iterative_scan = relaxed_order"],
            ) as held:
                assert await search_vectors(held, scope, corpus, vector) == found


async def test_one_session_is_read_whole(room: Room, corpus: CorpusStatistics) -> None:
    session = replace(SCOPE, session_id="ses_4")
    _, scanned = await both(room, corpus, session)
    async with agent_transaction(room.database, "main") as held:
        whole = await scan_space(
            held, CandidateColumns(session, (), question(room), with_times=False)
        )
    assert whole is not None
    assert len(whole.material.ids) == 50
    assert len(whole.vectors.hits) == ARM_LIMIT
    assert [one.document_id for one in whole.vectors.hits] == [
        one.document_id for one in scanned.hits
    ]
    assert whole.vectors.mean == pytest.approx(scanned.mean)
    assert whole.vectors.deviation == pytest.approx(scanned.deviation)


async def test_vectors_of_another_model_are_scanned(room: Room, corpus: CorpusStatistics) -> None:
    (model,) = [one for one, _ in room.embedders.working]
    assert corpus.has_index(model)
    assert not corpus.has_index(model + 1)


async def test_the_search_of_a_known_space_begins_with_the_settings_of_its_index(
    room: Room, corpus: CorpusStatistics
) -> None:
    corpora, vector = CorpusCache(), question(room)
    assert transaction_settings(corpora, SCOPE, vector, ARM_LIMIT) == ()
    async with agent_transaction(room.database, "main") as held:
        await corpora.of(held, SCOPE)
        expected = await search_vectors(held, SCOPE, corpus, vector)
    settings = transaction_settings(corpora, SCOPE, vector, ARM_LIMIT)
    async with agent_transaction(room.database, "main", local_settings=settings) as held:
        assert await held.fetchval("SHOW hnsw.ef_search") == "200"
        assert await search_vectors(held, SCOPE, corpus, vector, settings=settings) == expected
    assert transaction_settings(corpora, SCOPE, None, ARM_LIMIT) == ()
    session = replace(SCOPE, session_id="ses_4")
    assert transaction_settings(corpora, session, vector, ARM_LIMIT) == ()
