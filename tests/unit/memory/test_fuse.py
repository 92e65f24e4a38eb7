"""Weighing the arms' scores into one order."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_memory.search.fuse import fuse
from choir_memory.search.scored import Scored


def listed(*pairs: tuple[int, float]) -> list[Scored]:
    return [Scored(UUID(int=name), rank, score) for rank, (name, score) in enumerate(pairs, 1)]


def test_a_document_both_arms_like_beats_one_that_only_one_likes() -> None:
    fused = fuse({"text": listed((1, 0.6), (2, 0.5)), "vector": listed((2, 0.5), (3, 0.6))}, 10)
    assert [one.document_id.int for one in fused] == [2, 1, 3]
    assert fused[0].score == pytest.approx(0.5)
    assert fused[0].arms["text"].rank == 2
    assert fused[0].arms["vector"].rank == 1


def test_one_arm_alone_keeps_its_order_and_its_scores() -> None:
    fused = fuse({"text": listed((5, 0.8), (4, 0.2))}, 10)
    assert [(one.document_id.int, one.score) for one in fused] == [(5, 0.8), (4, 0.2)]


def test_what_no_arm_likes_is_left_out() -> None:
    assert fuse({"text": [], "vector": listed((1, -0.2), (2, 0.0))}, 10) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.floats(-1, 1)), max_size=40, unique_by=lambda p: p[0]
    ),
    st.lists(st.tuples(st.integers(0, 30), st.floats(0, 1)), max_size=40, unique_by=lambda p: p[0]),
    st.integers(1, 50),
)
def test_the_order_is_by_score_without_doubles_and_within_the_limit(
    vector: list[tuple[int, float]], text: list[tuple[int, float]], limit: int
) -> None:
    fused = fuse({"vector": listed(*vector), "text": listed(*text)}, limit)
    assert len(fused) <= limit
    assert [one.score for one in fused] == sorted((one.score for one in fused), reverse=True)
    assert len({one.document_id for one in fused}) == len(fused)
