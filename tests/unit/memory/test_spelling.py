"""Similar words: one edit away, with the same first letter."""

import pytest

from choir_memory.search.similar_terms import unknown_terms
from choir_memory.search.text_arm_store import NO_TEXT_RESULT, TextResult
from choir_memory.text.spelling import MAX_SIMILAR_WORDS, edit_between, find_similar, is_spelled


@pytest.mark.parametrize(
    ("term", "word", "edit"),
    [
        ("paino", "piano", "swap"),
        ("pino", "piano", "missing"),
        ("pino", "pinto", "missing"),
        ("piiano", "piano", "extra"),
        ("pieno", "piano", "other letter"),
        ("pianp", "piano", "other letter"),
        ("pian", "piano", "missing"),
        ("pianoo", "piano", "extra"),
        ("qiano", "piano", None),
        ("paion", "piano", None),
        ("piano", "piano", None),
        ("piano", "pianists", None),
    ],
)
def test_a_single_edit_is_recognized(term: str, word: str, edit: str | None) -> None:
    assert edit_between(term, word) == edit


def test_swaps_come_before_other_letters_and_few_words_are_returned() -> None:
    words = ["piana", "piane", "piani", "pinao", "pians"]
    similar = find_similar("piano", words)
    assert similar[0] == "pinao"
    assert len(similar) == MAX_SIMILAR_WORDS


def test_a_word_of_the_vocabulary_is_not_corrected() -> None:
    assert find_similar("piano", ["piano", "pinao"]) == ()


@pytest.mark.parametrize("term", ["cat", "gpt4", "鋼琴", "пианино", "a" * 33])
def test_short_words_numbers_and_other_scripts_are_not_corrected(term: str) -> None:
    assert not is_spelled(term)


def test_only_words_that_no_document_contains_are_unknown() -> None:
    text = TextResult((), ["piano", "paino"], [3, 0], 10, 5.0)
    assert unknown_terms(["piano", "paino", "common"], text) == ["paino"]
    assert unknown_terms(["piano"], text) == []
    assert unknown_terms(["paino", "cat"], NO_TEXT_RESULT) == ["paino"]
