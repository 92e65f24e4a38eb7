"""Cutting text for Telegram: every part fits, nothing but blanks at the cuts is lost."""

from hypothesis import given
from hypothesis import strategies as st

from choir_gateway.channels.telegram.chunks import LIMIT, split_text, units

TEXTS = st.text(st.sampled_from("ab \n😀é"), max_size=400)


@given(TEXTS, st.integers(2, 50))
def test_every_part_fits_and_all_words_come_through_in_order(text: str, limit: int) -> None:
    parts = split_text(text, limit)
    assert all(units(part) <= limit for part in parts)
    assert all(part.strip() for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


def test_a_text_that_fits_stays_one_message() -> None:
    assert split_text("x" * LIMIT) == ["x" * LIMIT]
    assert len(split_text("x" * (LIMIT + 1))) == 2


def test_characters_past_the_first_plane_count_twice() -> None:
    assert units("😀") == 2
    assert split_text("😀" * 3, 4) == ["😀😀", "😀"]


def test_a_cut_falls_between_paragraphs_where_it_can() -> None:
    assert split_text("a" * 60 + "\n\n" + "b" * 60, 100) == ["a" * 60, "b" * 60]
    assert split_text("a" * 60 + " " + "b" * 60, 100) == ["a" * 60 + " ", "b" * 60]


def test_an_empty_text_is_no_message() -> None:
    assert split_text(" \n ") == []
