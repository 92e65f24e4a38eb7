"""Which spaces are in memory, and the similarity of their documents to a query."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from choir_memory.embedding.embedder import to_halfvec
from choir_memory.maintenance.prune_store import CHANGES_KEPT_S
from choir_memory.search import space_cache
from choir_memory.search.cached_space import (
    BYTES_PER_DOCUMENT,
    CachedSpace,
    SpaceVersion,
    normalize_rows,
)
from choir_memory.search.candidates import CandidateTable, DocumentPlaces
from choir_memory.search.scope_store import SearchScope
from choir_memory.search.space_cache import (
    CACHE_TTL_S,
    IN_USE_S,
    SEARCHES_TO_CACHE,
    SEARCHES_TO_RETRY,
    SpaceCache,
    SpaceKey,
)
from choir_memory.search.term_cache import TermCache
from choir_memory.settings import OFFLINE_DIMENSIONS, MemorySettings

DIMENSIONS = 16
VERSION = SpaceVersion("1:1:", datetime(2026, 1, 1, tzinfo=UTC), 1, None)


class FakeTime:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr(space_cache, "time", fake)
    return fake


def make_key(name: str) -> SpaceKey:
    return SearchScope(name, "session", ("mid_term",)), 1


def make_space(
    documents: int, vector_rows: Sequence[int] | None = None, dimensions: int = DIMENSIONS
) -> CachedSpace:
    rows = np.array(range(documents) if vector_rows is None else vector_rows, np.int64)
    numbers = np.random.default_rng(7).normal(size=(len(rows), dimensions))
    vectors = normalize_rows(numbers.astype(np.float16))
    nothing = np.zeros(documents)
    table = CandidateTable(
        ids=[UUID(int=number) for number in range(documents)],
        sessions=np.zeros(documents, np.int64),
        positions=np.arange(documents),
        tokens=nothing,
        speakers=[None] * documents,
        question_shares=nothing,
        by_agent=np.zeros(documents, np.bool_),
        happened_at=[None] * documents,
        cosines=np.full(documents, np.nan),
        counts=np.zeros((documents, 0)),
        eligible=np.ones(documents, np.bool_),
    )
    places = DocumentPlaces(np.arange(documents), np.arange(documents))
    return CachedSpace(VERSION, table, places, vectors, rows, None, TermCache(documents))


def read_often(cache: SpaceCache, name: str) -> int:
    """Return how many searches it takes until the space should be read."""
    return next(count for count in range(1, 100) if cache.should_read(make_key(name)))


def test_similarities_are_those_of_the_numbers() -> None:
    space = make_space(600)
    query = np.random.default_rng(8).normal(size=DIMENSIONS).astype(np.float16)
    exact = space.vectors.astype(np.float64) @ query.astype(np.float64)
    exact /= np.linalg.norm(query.astype(np.float64))
    assert space.compute_cosines(to_halfvec(query.tolist()))[0] == pytest.approx(exact, abs=1e-6)


def test_equal_vectors_are_equally_similar_wherever_they_are() -> None:
    space = make_space(600)
    space.vectors[:] = space.vectors[0]
    cosines, _ = space.compute_cosines(to_halfvec([float(number) for number in range(DIMENSIONS)]))
    assert len(set(cosines.tolist())) == 1


def test_the_most_similar_passage_counts_and_a_document_without_one_has_no_similarity() -> None:
    space = make_space(3, vector_rows=[0, 0, 2])
    query = to_halfvec(space.vectors[1].tolist())
    cosines, _ = space.compute_cosines(query)
    assert cosines[0] == pytest.approx(1, abs=1e-3)
    assert np.isnan(cosines[1])
    assert cosines[2] < 1
    # the table in memory is not changed
    assert np.isnan(space.documents.cosines).all()


def test_vectors_of_sentences_are_compared_apart_from_the_whole() -> None:
    space = replace(make_space(2, vector_rows=[0, 0, 1]), passages=np.array([0, 2]))
    cosines, whole = space.compute_cosines(to_halfvec(space.vectors[1].tolist()))
    assert whole is not None
    assert cosines[0] == pytest.approx(1, abs=1e-3)
    assert whole[0] < 0.9
    assert whole[1] == cosines[1]


def test_neighbours_are_computed_once_for_all_searches_of_a_space() -> None:
    space = make_space(3)
    known = space.documents.neighbourhood
    documents = replace(space.documents, known_neighbourhood=known)
    assert documents.neighbourhood is known
    assert documents.with_counts(np.ones((3, 1))).neighbourhood is known
    assert known.rows_at(1).tolist() == [1, 2, 3]
    assert known.rows_at(-2).tolist() == [3, 3, 0]
    assert known.rows_at(1) is known.rows_at(1)
    # other rows have other neighbours
    assert documents.select_rows(np.array([0, 2])).neighbourhood.rows_at(1).tolist() == [2, 2]


def test_a_vector_of_zeros_is_similar_to_nothing() -> None:
    space = make_space(2)
    zeros = to_halfvec([0.0] * DIMENSIONS)
    assert np.isnan(space.compute_cosines(zeros)[0]).all()


def test_a_space_is_read_at_the_third_search_within_a_minute(clock: FakeTime) -> None:
    cache = SpaceCache(1_000_000)
    assert read_often(cache, "often") == SEARCHES_TO_CACHE
    for _ in range(5):
        assert not cache.should_read(make_key("seldom"))
        clock.now += IN_USE_S + 1


async def test_a_space_that_did_not_fit_is_not_tried_at_once(clock: FakeTime) -> None:
    cache = SpaceCache(1_000_000)
    read_often(cache, "main")
    assert read_often(cache, "main") == SEARCHES_TO_RETRY
    cache.put(make_key("main"), make_space(1))
    cache.drop(make_key("main"))
    assert read_often(cache, "main") == SEARCHES_TO_CACHE


def test_without_memory_nothing_is_read() -> None:
    cache = SpaceCache(0)
    assert not any(cache.should_read(make_key("main")) for _ in range(100))


async def test_two_spaces_of_a_thousand_documents_fit_beside_the_offline_model() -> None:
    settings = MemorySettings()
    assert settings.embedding_endpoint is None
    cache = SpaceCache(settings.search_cache_bytes)
    space = make_space(1_000, dimensions=OFFLINE_DIMENSIONS)
    for name in ("first", "second"):
        cache.put(make_key(name), space)
        assert cache.find(make_key(name)) is space


async def test_a_space_in_use_is_not_displaced(clock: FakeTime) -> None:
    one = make_space(100)
    assert one.size > 100 * BYTES_PER_DOCUMENT
    cache = SpaceCache(one.size * 2)
    for name in ("first", "second", "third"):
        cache.put(make_key(name), one)
    assert cache.find(make_key("first")) is one
    assert cache.find(make_key("second")) is one
    assert cache.find(make_key("third")) is None
    clock.now += IN_USE_S
    assert cache.find(make_key("first")) is one
    # the one that nobody searches any more
    cache.put(make_key("third"), one)
    assert cache.find(make_key("second")) is None
    assert cache.find(make_key("third")) is one
    assert cache.size == one.size * 2


async def test_a_space_takes_half_of_the_memory_at_most(clock: FakeTime) -> None:
    space = make_space(100)
    cache = SpaceCache(space.size * 2 - 2)
    cache.put(make_key("main"), space)
    assert cache.find(make_key("main")) is None
    assert cache.size == 0


async def test_a_space_leaves_memory_long_before_its_changes_are_deleted(clock: FakeTime) -> None:
    cache = SpaceCache(1_000_000)
    cache.put(make_key("main"), make_space(3))
    clock.now += CACHE_TTL_S - 1
    assert cache.find(make_key("main")) is not None
    clock.now += 1
    # by any search
    assert cache.find(make_key("other")) is None
    assert cache.size == 0
    assert CACHE_TTL_S * 10 <= CHANGES_KEPT_S


async def test_a_space_leaves_memory_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_cache, "CACHE_TTL_S", 0.01)
    cache = SpaceCache(1_000_000)
    cache.put(make_key("main"), make_space(3))
    assert cache.size > 0
    async with asyncio.timeout(10):
        while cache.size:
            await asyncio.sleep(0.01)
