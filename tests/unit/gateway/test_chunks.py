"""Cutting text for Telegram: every part fits and can be said, nothing but blanks at the cuts is lost."""

from hypothesis import given
from hypothesis import strategies as st

from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import make_plain, plain_text
from choir_gateway.channels.telegram.html import LIMIT, to_html
from choir_testing.telegram.markup import render

TEXTS = st.text(st.sampled_from("ab \n😀é"), max_size=400)
MARKUP = st.lists(
    st.sampled_from(
        [
            "**",
            "*",
            "`",
            "```\n",
            "a<b ",
            "word ",
            "\n",
            "\n\n",
            "- ",
            "> ",
            "[x](http://y/?a=1&b)",
            "😀",
            "| a | b |\n|---|---|\n| 1 | 2 |\n",
            "# ",
            "1. ",
            "~~",
            "&amp;",
            "\\",
            "  ",
        ]
    ),
    max_size=60,
).map("".join)


def cut(text: str, limit: int = LIMIT) -> list[str]:
    return [plain_text(part) for part in split_text(make_plain(text), limit)]


@given(TEXTS, st.integers(2, 50))
def test_every_part_fits_and_all_words_come_through_in_order(text: str, limit: int) -> None:
    parts = cut(text, limit)
    assert all(utf16_length(part) <= limit for part in parts)
    assert all(part.strip() for part in parts)
    assert "".join("".join(parts).split()) == "".join(text.split())


@given(MARKUP, st.integers(20, 80))
def test_every_part_of_formatted_text_is_taken_by_telegram(text: str, limit: int) -> None:
    runs = parse_markdown(text)
    parts = split_text(runs, limit)
    for part in parts:
        assert utf16_length(plain_text(part)) <= limit
        assert render(to_html(part), "HTML") == plain_text(part)
    said = "".join(plain_text(part) for part in parts)
    assert "".join(said.split()) == "".join(plain_text(runs).split())


def test_a_text_that_fits_stays_one_message() -> None:
    assert cut("x" * LIMIT) == ["x" * LIMIT]
    assert len(cut("x" * (LIMIT + 1))) == 2


def test_characters_past_the_first_plane_count_twice() -> None:
    assert utf16_length("😀") == 2
    assert cut("😀" * 3, 4) == ["😀😀", "😀"]


def test_a_cut_falls_between_paragraphs_where_it_can() -> None:
    assert cut("a" * 60 + "\n\n" + "b" * 60, 100) == ["a" * 60, "b" * 60]
    assert cut("a" * 60 + " " + "b" * 60, 100) == ["a" * 60 + " ", "b" * 60]


def test_a_code_block_is_closed_at_a_cut_and_opened_again() -> None:
    text = "```python\n" + "\n".join(f"line_{number} = {number}" for number in range(20)) + "\n```"
    parts = [to_html(part) for part in split_text(parse_markdown(text), 100)]
    assert len(parts) > 2
    for part in parts:
        assert part.startswith('<pre><code class="language-python">line_')
        assert part.endswith("</code></pre>")


def test_a_short_mark_is_not_cut_but_left_whole_for_the_next_part() -> None:
    text = "a" * 60 + " **two words here** and more " + "b" * 60
    parts = [to_html(part) for part in split_text(parse_markdown(text), 70)]
    assert "<b>two words here</b>" in parts[1]
    assert "<b>" not in parts[0]


def test_an_empty_text_is_no_message() -> None:
    assert cut(" \n ") == []
