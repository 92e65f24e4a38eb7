"""Full text in a space that is too large to count: the same documents, without looking at all of them."""

import hashlib
from collections.abc import Sequence
from uuid import UUID

from choir_memory.schema.store import agent_transaction
from choir_memory.search.candidate_columns_store import CandidateColumns
from choir_memory.search.candidates import ARM_LIMIT, ArmResult
from choir_memory.search.corpus_store import LARGE_SPACE_DOCUMENTS, CorpusCache
from choir_memory.search.full_scan_store import scan_space
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.text_arm_store import TextResult, search_text
from tests.service.memory.conftest import Room
from tests.service.memory.grown import grow

DOCUMENTS = LARGE_SPACE_DOCUMENTS + 1_000
SCOPE = SearchScope("main", "session", ("mid_term",))
PLACES = {UUID(hashlib.md5(str(n).encode()).hexdigest()): n for n in range(1, DOCUMENTS + 1)}
_AS_IF_EMPTY = """
UPDATE pg_class SET relpages = 1, reltuples = 0 WHERE oid = 'choir_main.memory_documents'::regclass
"""


async def both(
    room: Room, *terms: str, scope: SearchScope = SCOPE
) -> tuple[TextResult, TextResult]:
    """Ask as in a large space, and as in a small one, for which Postgres is told that it is."""
    wanted = CandidateColumns(scope, terms, None, with_times=False)
    async with agent_transaction(room.database, "main") as held:
        assert await scan_space(held, wanted) is None
        corpus = await CorpusCache().of(held, scope)
        large = await search_text(held, scope, corpus, terms)
    async with room.database.transaction() as held:
        await held.execute(_AS_IF_EMPTY)
        small = await scan_space(held, wanted)
        await held.execute("ANALYZE choir_main.memory_documents")
    assert small is not None
    return large, small.text


def places(hits: Sequence[ArmResult]) -> list[int]:
    return [PLACES[one.document_id] for one in hits]


async def test_a_large_space_is_known_without_counting_it(room: Room) -> None:
    await grow(room, DOCUMENTS)
    async with agent_transaction(room.database, "main") as held:
        corpus = await CorpusCache().of(held, SCOPE)
    assert abs(corpus.documents - DOCUMENTS) < DOCUMENTS / 10
    assert corpus.mean_tokens == 3
    assert corpus.common["common"] == 1
    assert abs(corpus.common["topic7"] - 1 / 40) < 0.01
    assert "rare7" not in corpus.common


async def test_the_estimate_ranks_as_the_count_does(room: Room) -> None:
    await grow(room, DOCUMENTS)
    large, counted = await both(room, "common", "topic7", "rare2007", "rare4008")
    assert places(large.hits[:2]) == places(counted.hits[:2]) == [2007, 4008]
    assert {place % 40 for place in places(large.hits[2:100])} == {7}
    scores = zip(large.hits[:100], counted.hits[:100], strict=True)
    assert all(abs(one.score - other.score) < 0.02 for one, other in scores)
    assert large.terms[:2] == ["rare2007", "rare4008"]
    assert list(large.counts[:2]) == [1, 1]
    assert large.counts[large.terms.index("common")] == large.documents


async def test_documents_that_hold_several_common_words_come_before_those_that_hold_one(
    room: Room,
) -> None:
    await grow(room, DOCUMENTS)
    for terms in (("common", "topic7"), ("common", "topic7", "quokka")):
        large, counted = await both(room, *terms)
        assert len(large.hits) == len(counted.hits) == ARM_LIMIT
        of_topic = DOCUMENTS // 40
        assert {place % 40 for place in places(large.hits[:of_topic])} == {7}


async def test_filters_hold_in_a_large_space_and_a_session_is_counted_as_it_is(room: Room) -> None:
    await grow(room, DOCUMENTS)
    spoken = SearchScope("main", "session", ("mid_term",), speakers=("speaker7",))
    large, _ = await both(room, "topic7", "rare2007", scope=spoken)
    assert {place % 100 for place in places(large.hits)} == {7}
    lived = SearchScope("main", "session", ("mid_term",), session_id="ses_40")
    async with agent_transaction(room.database, "main") as held:
        session = await scan_space(
            held, CandidateColumns(lived, ("common",), None, with_times=False)
        )
    assert session is not None
    assert sorted(session.material.positions) == list(range(2000, 2050))
    assert set(places(session.text.hits)) <= set(range(2000, 2050))
    assert len(session.text.hits) == ARM_LIMIT
    assert session.text.counts == [50]
