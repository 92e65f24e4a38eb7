"""Which vector indexes a space is to have, and how far a search follows one."""

import pytest

from choir_memory.maintenance.index_plan import (
    IndexedModel,
    IndexPlan,
    VectorIndex,
    VectorTable,
    build_memory_mb,
    plan_indexes,
)
from choir_memory.search.vector_arm_store import ef_search_for

OLD, NEW = IndexedModel(1, 384), IndexedModel(2, 1536)
OF_OLD, OF_NEW = "memory_embeddings_hnsw_1", "memory_embeddings_hnsw_2"


@pytest.mark.parametrize(
    ("rows", "indexes", "models", "expected"),
    [
        (999, [], [OLD], IndexPlan([], [])),
        (1_000, [], [OLD], IndexPlan([], [OLD])),
        (5_000, [VectorIndex(OF_OLD, valid=True)], [OLD], IndexPlan([], [])),
        (5_000, [VectorIndex(OF_OLD, valid=True)], [OLD, NEW], IndexPlan([], [NEW])),
        (
            5_000,
            [VectorIndex(OF_OLD, valid=True), VectorIndex(OF_NEW, valid=True)],
            [NEW],
            IndexPlan([OF_OLD], []),
        ),
        (5_000, [VectorIndex(OF_OLD, valid=False)], [OLD], IndexPlan([OF_OLD], [OLD])),
        (400, [VectorIndex(OF_OLD, valid=True)], [OLD], IndexPlan([], [])),
        (249, [VectorIndex(OF_OLD, valid=True)], [OLD], IndexPlan([OF_OLD], [])),
    ],
    ids=[
        "small",
        "large",
        "has it",
        "of the model that is being built, too",
        "of a model that is gone",
        "cut off while it was made",
        "shrunk a little",
        "shrunk",
    ],
)
def test_a_large_space_has_one_valid_index_a_model(
    rows: int, indexes: list[VectorIndex], models: list[IndexedModel], expected: IndexPlan
) -> None:
    table = VectorTable("main", "memory_embeddings", rows, indexes)
    assert plan_indexes(table, models, 1_000) == expected


def test_the_memory_of_an_index_grows_with_vectors_and_dimensions() -> None:
    assert build_memory_mb(VectorTable("a", "memory_embeddings", 150_000, []), OLD) <= 256
    million = VectorTable("a", "memory_embeddings", 1_000_000, [])
    assert 256 < build_memory_mb(million, OLD) < 2_048 < build_memory_mb(million, NEW)


def test_a_larger_space_keeps_more_vectors_in_view_up_to_what_pgvector_takes() -> None:
    widths = [ef_search_for(documents) for documents in (5_000, 10_000, 100_000, 1_000_000, 10**9)]
    assert widths == [200, 200, 448, 1_000, 1_000]
