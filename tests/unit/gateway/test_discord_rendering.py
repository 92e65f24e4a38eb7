"""Discord's Markdown from marked text: marks, escapes, and the splitting of long texts."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from choir_gateway.channels.discord.rendering import LIMIT, split_markdown, to_markdown
from choir_gateway.channels.formatting.chunks import utf16_length
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import make_own, make_plain


def rendered(text: str) -> str:
    return to_markdown(parse_markdown(text))


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("a **b** c", "a **b** c"),
        ("*i* ~~s~~", "*i* ~~s~~"),
        ("***both***", "*\u200b**both***"),
        ("# Title", "**Title**"),
        ("- one\n- two", "• one\n• two"),
        ("> quoted", "*quoted*"),
        ("`code`", "`code`"),
        ("`` a`b ``", "`` a`b ``"),
        ("```py\nx = 1\n```", "```py\nx = 1\n```"),
        ("[name](https://a.b/c)", "[name](<https://a.b/c>)"),
        ("[name](https://a.b/c_(d))", "[name](<https://a.b/c_%28d%29>)"),
        ("[name](notes.md)", "name (notes.md)"),
        ("https://a.b/c_d_e", "https://a.b/c_d_e"),
        ("snake_case and 2 \\* 3", "snake\\_case and 2 \\* 3"),
        ("a > b", "a \\> b"),
        ("<@7> ||x||", "\\<@7\\> \\|\\|x\\|\\|"),
        ("```\n \n```\na", "```\n \u200b\n```\n\na"),
        ("~~~\n```\n> x\n~~~", "```\n`\u200b`\u200b`\n> x\n```"),
    ],
)
def test_markdown_becomes_discords(markdown: str, expected: str) -> None:
    assert rendered(markdown) == expected


def test_plain_text_has_no_marks() -> None:
    assert to_markdown(make_plain("**x** `y`\n> z")) == "\\*\\*x\\*\\* \\`y\\`\n\\> z"


def test_a_text_of_choir_is_a_quotation_on_each_line() -> None:
    assert to_markdown(make_own("one\n\ntwo")) == "> one\n> \n> two"


def test_a_long_address_is_shown_as_text() -> None:
    address = "https://a.b/" + "x" * 3000
    parts = split_markdown(parse_markdown(f"[name]({address})"))
    assert all(utf16_length(part) <= LIMIT for part in parts)
    assert "".join(parts).replace("\\", "") == f"name ({address})"


def test_escapes_count_towards_the_limit() -> None:
    parts = split_markdown(make_plain("_" * 3000))
    assert [part.replace("\\", "") for part in parts] != []
    assert all(utf16_length(part) <= LIMIT for part in parts)
    assert "".join(parts) == "\\_" * 3000


PIECES = st.sampled_from(
    [
        *("a", " ", "\n", "\n\n", "> ", "```", "~~~", "`", "``", "**", "*", "_", "~~", "# ", "- "),
        *(
            "|",
            "[x](https://y.z)",
            "https://a.b/c*`|",
            "\\",
            "<@1>",
            "😀",
            "\r",
            "\t",
            "1. ",
            "-# ",
        ),
    ]
)


def quoted_lines(text: str) -> list[str]:
    """Return the lines outside code that Discord shows as quotations."""
    outside = "".join(text.split("```")[::2])
    return [line for line in outside.splitlines() if line.lstrip(" \t").startswith(">")]


@given(st.lists(PIECES, max_size=60).map("".join), st.integers(20, 200))
@example("~~`[x](https://y.z)~~", 20)
def test_no_text_of_an_agent_is_a_quotation(text: str, limit: int) -> None:
    for part in split_markdown(parse_markdown(text), limit):
        assert utf16_length(part) <= limit
        assert part.count("```") % 2 == 0
        assert quoted_lines(part) == []
