"""Nearest vectors by index: what an exact scan finds, and what filters let pass."""

from dataclasses import replace

import pytest

from choir_memory.embedding.port import QueryVector, render
from choir_memory.growth.upkeep import Upkeep
from choir_memory.schema.store import as_agent
from choir_memory.search.columns_store import Wanted
from choir_memory.search.corpora import Corpora
from choir_memory.search.corpus_store import Corpus
from choir_memory.search.scope_store import Scope
from choir_memory.search.scored import ARM_DEPTH
from choir_memory.search.vector_arm_store import VectorFound, vector_arm
from choir_memory.search.whole_store import read_whole
from tests.service.memory.conftest import Room
from tests.service.memory.grown import grow
from tests.service.memory.provider import DIMENSIONS, vector_of
from tests.service.memory.test_growth import HABITS

DOCUMENTS = 2_000
SCOPE = Scope("main", "session", ("mid_term",))
SCANNED = Corpus(0)
"""What makes the arm scan everything."""


@pytest.fixture
async def corpus(room: Room) -> Corpus:
    """Return what is known of a space that has its index."""
    await grow(room, DOCUMENTS)
    await Upkeep(room.database, HABITS).round()
    async with as_agent(room.database, "main") as held:
        return await Corpora().of(held, SCOPE)


def question(room: Room, text: str = "a question") -> QueryVector:
    (model,) = [one for one, _ in room.embedders.working]
    return QueryVector(model, DIMENSIONS, render(vector_of(text)))


async def both(
    room: Room, corpus: Corpus, scope: Scope = SCOPE, text: str = "a question"
) -> tuple[VectorFound, VectorFound]:
    """Ask the arm by index, and by a scan."""
    vector = question(room, text)
    async with as_agent(room.database, "main") as held:
        indexed = await vector_arm(held, scope, corpus, vector)
        return indexed, await vector_arm(held, scope, SCANNED, vector)


async def test_the_index_finds_what_a_scan_finds_and_knows_how_near_any_document_is(
    room: Room, corpus: Corpus
) -> None:
    for text in ("a question", "of another kind", "about the garden"):
        indexed, scanned = await both(room, corpus, text=text)
        nearest = {one.document_id for one in scanned.hits[:10]}
        assert len(nearest & {one.document_id for one in indexed.hits[:10]}) >= 9
        assert indexed.hits[0] == scanned.hits[0]
        assert len(indexed.hits) == len(scanned.hits)
        assert abs(indexed.mean - scanned.mean) < 0.1
        assert abs(indexed.deviation - scanned.deviation) < 0.1


async def test_a_filter_that_few_pass_still_gets_all_of_them(room: Room, corpus: Corpus) -> None:
    spoken = replace(SCOPE, speakers=("speaker7",))
    indexed, scanned = await both(room, corpus, spoken)
    assert len(scanned.hits) == DOCUMENTS // 100
    assert {one.chunk_index for one in indexed.hits} == {one.chunk_index for one in scanned.hits}


async def test_one_session_is_read_whole(room: Room, corpus: Corpus) -> None:
    session = replace(SCOPE, session_id="ses_4")
    _, scanned = await both(room, corpus, session)
    async with as_agent(room.database, "main") as held:
        whole = await read_whole(held, Wanted(session, (), question(room), dated=False))
    assert whole is not None
    assert len(whole.material.ids) == 50
    assert len(whole.near.hits) == ARM_DEPTH
    assert [one.document_id for one in whole.near.hits] == [one.document_id for one in scanned.hits]
    assert whole.near.mean == pytest.approx(scanned.mean)
    assert whole.near.deviation == pytest.approx(scanned.deviation)


async def test_vectors_of_another_model_are_scanned(room: Room, corpus: Corpus) -> None:
    (model,) = [one for one, _ in room.embedders.working]
    assert corpus.has_index(model)
    assert not corpus.has_index(model + 1)
