"""Relevance is comparable between spaces and models, and pairs across words do not count."""

import numpy as np
import pytest

from choir_memory.search.relevance import (
    average_similarity,
    estimate_relevance,
    find_split_pairs,
)

YES = np.array([True])


def relevance(cosine: float, average: float, text: float, *, matches: bool = True) -> float:
    cosines, texts = np.array([cosine]), np.array([text])
    return float(estimate_relevance(cosines, average, texts, YES & matches)[0])


def test_a_similarity_counts_above_the_average_of_the_space() -> None:
    assert relevance(0.9, 0.8, 0.0) == pytest.approx(relevance(0.55, 0.1, 0.0))
    assert relevance(0.7, 0.8, 0.0) == 0.0


def test_without_a_vector_only_the_documents_own_words_count() -> None:
    assert relevance(float("nan"), 0.3, 0.6) == 0.6
    assert relevance(float("nan"), 0.3, 0.6, matches=False) == 0.0


def test_in_a_space_of_few_documents_the_average_counts_less() -> None:
    assert average_similarity(0.8, 2) < 0.3
    assert average_similarity(0.8, 1_000) > 0.79


def test_pairs_of_characters_that_span_two_words_are_recognised() -> None:
    terms = ["雅婷", "婷和", "和志", "志明", "血型", "tree", "ab"]
    counts = [3, 0, 0, 2, 0, 0, 0]
    assert [terms[at] for at in find_split_pairs(terms, counts)] == ["婷和", "和志"]
