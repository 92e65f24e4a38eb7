"""Cutting text into search tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_memory.text.tokens import (
    MAX_DISTINCT,
    MAX_POSITION,
    document_tokens,
    query_terms,
    stem,
    tsvector,
)


@pytest.mark.parametrize(
    "forms",
    [
        ("paint", "paints", "painted", "painting"),
        ("story", "stories"),
        ("run", "runs", "running"),
        ("create", "creates", "created", "creating"),
        ("like", "likes", "liked", "liking"),
        ("church", "churches"),
        ("happy", "happily"),
    ],
)
def test_forms_of_a_word_meet(forms: tuple[str, ...]) -> None:
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize("word", ["bus", "glass", "this", "red", "need", "bring", "thing", "it"])
def test_short_words_keep_what_only_looks_like_an_ending(word: str) -> None:
    assert stem(word) == word


def test_case_accents_and_possessives_fall_away() -> None:
    assert query_terms("ÜBER Café's Maria’s") == query_terms("uber cafe maria")


def test_han_text_is_stored_by_character_and_pair_and_asked_by_pair() -> None:
    assert document_tokens("貓咪睡") == ["貓", "咪", "睡", "貓咪", "咪睡"]
    assert query_terms("貓咪睡") == ["貓咪", "咪睡"]
    assert query_terms("貓") == ["貓"]


def test_scripts_next_to_each_other_are_told_apart() -> None:
    assert "tokyo" in query_terms("Tokyo東京2024")
    assert "東京" in query_terms("Tokyo東京2024")
    assert "2024" in query_terms("Tokyo東京2024")


def test_kana_marks_and_hangul_survive_folding() -> None:
    assert query_terms("ガギ") == ["ガギ"]
    assert query_terms("ガギ") != query_terms("カキ")
    assert query_terms("한국") == ["한국"]


def test_a_vector_holds_each_word_once_with_its_places() -> None:
    assert tsvector(["a", "b", "a"]) == "'a':1,3 'b':2"
    assert tsvector(["x"] * 400).count(",") == 254
    assert tsvector([str(n) for n in range(20_000)]).endswith(f":{MAX_POSITION}")
    assert tsvector([str(n) for n in range(MAX_DISTINCT + 9)]).count("'") == 2 * MAX_DISTINCT


@given(st.text(max_size=300))
def test_whatever_a_document_says_it_can_be_asked_for(text: str) -> None:
    stored = set(document_tokens(text))
    assert set(query_terms(text)) <= stored


@given(st.text(max_size=300))
def test_no_token_can_break_out_of_its_quotes(text: str) -> None:
    for token in document_tokens(text):
        assert not set(token) & set("'\\ \x00:")
        assert token


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_texts_have_the_same_tokens_as_within_other_texts(text: str) -> None:
    assert document_tokens(f"{text} \u00e9") == [*document_tokens(text), "e"]
