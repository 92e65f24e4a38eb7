"""Cutting a long text into passages."""

from hypothesis import given
from hypothesis import strategies as st

from choir_memory.text.splitting import (
    DENSE_PASSAGE_CHARS,
    MAX_PASSAGES,
    PASSAGE_CHARS,
    split_passages,
)


def test_a_short_text_is_one_passage() -> None:
    assert split_passages("  One sentence. Another.  ") == ["One sentence. Another."]


def test_a_long_text_is_cut_at_sentences() -> None:
    cut = split_passages("This sentence is here again. " * 100)
    assert len(cut) > 1
    assert all(piece.endswith("again.") for piece in cut)


def test_chinese_passages_are_shorter_and_end_at_its_full_stops() -> None:
    cut = split_passages("我的貓喜歡在窗邊睡覺。" * 60)
    assert all(len(piece) <= DENSE_PASSAGE_CHARS for piece in cut)
    assert all(piece.endswith("。") for piece in cut)


def test_text_without_any_break_is_still_cut() -> None:
    assert [len(piece) for piece in split_passages("x" * 2000)] == [900, 900, 200]


@given(st.text(max_size=5000))
def test_no_passage_is_too_long_and_there_is_always_one(text: str) -> None:
    cut = split_passages(text)
    assert 1 <= len(cut) <= MAX_PASSAGES
    assert all(len(piece) <= PASSAGE_CHARS for piece in cut)


@given(st.text(alphabet="ab .\n", max_size=5000))
def test_no_word_is_lost(text: str) -> None:
    joined = "".join("".join(split_passages(text)).split())
    assert joined == "".join(text.split())
