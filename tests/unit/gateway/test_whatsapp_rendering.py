"""WhatsApp's formatting from marked text: marks, literal symbols, and the splitting of long texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_common.wire.attachments import Button
from choir_gateway.channels.formatting.chunks import utf16_length
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import make_own, make_plain
from choir_gateway.channels.whatsapp.parts import TextMessagePart, make_text_body
from choir_gateway.channels.whatsapp.rendering import LIMIT, LOOKALIKES, split_rendered
from choir_testing.whatsapp.screen import show, visible_text

STAR, LINE, TICK = LOOKALIKES["*"], LOOKALIKES["_"], LOOKALIKES["`"]


def rendered(text: str) -> str:
    return "".join(split_rendered(parse_markdown(text), LIMIT))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a **b** c", "a *b* c"),
        ("*i* ~~s~~", "_i_ ~s~"),
        ("***both***", "_*both*_"),
        ("**one\ntwo**", "*one*\n*two*"),
        ("# Title", "*Title*"),
        ("- one\n- two", "• one\n• two"),
        ("> quoted", "_quoted_"),
        ("`code`", "`code`"),
        ("`` a`b ``", "```a`b```"),
        ("```py\nx = 1\n```", "```x = 1```"),
        ("[name](https://a.b/c)", "name (https://a.b/c)"),
        ("<https://a.b/_c_>", "https://a.b/_c_"),
        ("[name](notes.md)", "name (notes.md)"),
        ("snake_case and 2 * 3", "snake_case and 2 * 3"),
        ("a \\*star", "a *star"),
        ("a \\*star\\*", f"a {STAR}star*"),
        ("\\_a\\_ **b**", f"{LINE}a_ *b*"),
        ("half**bold**half", "halfboldhalf"),
        ("a \\` b", f"a {TICK} b"),
        ("\\> no quotation", f"{LOOKALIKES['>']} no quotation"),
    ],
)
def test_markdown_becomes_whatsapps(markdown: str, expected: str) -> None:
    assert rendered(markdown) == expected


def test_only_choirs_own_texts_are_quotations() -> None:
    (own,) = split_rendered(make_own("one\ntwo"), LIMIT)
    assert own == "> one\n> two"
    (plain,) = split_rendered(make_plain("> npm\n  > install"), LIMIT)
    assert not any("quote" in it.styles for it in show(plain))


@given(st.text(alphabet="ab *_~`>\n-", max_size=60))
def test_literal_symbols_have_no_effect(text: str) -> None:
    for part in split_rendered(make_plain(text), LIMIT):
        assert {style for it in show(part) for style in it.styles} == set()


@given(st.text(max_size=300), st.integers(40, 200))
def test_parts_are_never_longer_than_the_limit(text: str, limit: int) -> None:
    for part in split_rendered(parse_markdown(text), limit):
        assert utf16_length(part) <= limit


def test_no_word_of_a_long_text_with_marks_is_lost() -> None:
    words = [f"**word{number}**" if number % 3 else f"`word{number}`" for number in range(2_000)]
    parts = split_rendered(parse_markdown(" ".join(words)), LIMIT)
    shown = " ".join(visible_text(part) for part in parts)
    assert shown.split() == [f"word{number}" for number in range(2_000)]


def test_more_or_longer_buttons_become_a_list() -> None:
    few = tuple(Button(label=f"b{number}", data=f"d{number}") for number in range(3))
    four = (*few, Button(label="b3", data="d3"))
    long = (Button(label="a label of thirty characters..", data="d"),)
    kinds = [
        make_text_body(TextMessagePart("Which?", buttons))["interactive"]
        for buttons in (few, four, long)
    ]
    assert [it["type"] for it in kinds if isinstance(it, dict)] == ["button", "list", "list"]
