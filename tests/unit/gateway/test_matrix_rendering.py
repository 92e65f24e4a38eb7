"""Matrix's HTML and plain body from marked text, and the splitting of long texts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from choir_gateway.channels.formatting.chunks import utf16_length
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.formatting.styled import make_own, make_plain, plain_text
from choir_gateway.channels.matrix.rendering import (
    LIMIT,
    MAX_BYTES,
    render,
    split_styled,
    to_html,
    to_plain,
)


@pytest.mark.parametrize(
    ("markdown", "html", "plain"),
    [
        ("a **b** c", "a <strong>b</strong> c", "a b c"),
        ("*i* ~~s~~", "<em>i</em> <del>s</del>", "i s"),
        ("# Title", "<strong>Title</strong>", "Title"),
        ("- one\n- two", "• one<br>• two", "• one\n• two"),
        ("> quoted", "<em>quoted</em>", "quoted"),
        ("`a<b`", "<code>a&lt;b</code>", "a<b"),
        (
            "```py\nx = 1\ny = 2\n```",
            '<pre><code class="language-py">x = 1\ny = 2</code></pre>',
            "x = 1\ny = 2",
        ),
        ("```\nx\n```", "<pre><code>x</code></pre>", "x"),
        ("[name](https://a.b/c)", '<a href="https://a.b/c">name</a>', "name (https://a.b/c)"),
        ("<https://a.b>", '<a href="https://a.b">https://a.b</a>', "https://a.b"),
        ('[x](https://a.b/"onclick=)', '<a href="https://a.b/%22onclick=">x</a>', None),
        ("[name](javascript:x)", "[name](javascript:x)", None),
        ("<script>x</script>", "&lt;script&gt;x&lt;/script&gt;", "<script>x</script>"),
    ],
)
def test_markdown_becomes_html_and_plain_text(markdown: str, html: str, plain: str | None) -> None:
    styled = parse_markdown(markdown)
    assert to_html(styled) == html
    assert plain is None or to_plain(styled) == plain


def test_choirs_own_text_is_a_quotation_in_both_forms() -> None:
    own = make_own("Approved.\nAll is done.")
    assert to_html(own) == "<blockquote>Approved.<br>All is done.</blockquote>"
    assert to_plain(own) == "| Approved.\n| All is done."


def test_a_link_in_several_runs_has_its_address_once() -> None:
    assert to_plain(parse_markdown("[a **b** c](https://x.y)")) == "a b c (https://x.y)"


def test_a_long_address_is_shown_as_text() -> None:
    address = f"https://a.b/{'x' * 5_000}"
    parts = split_styled(parse_markdown(f"[x]({address})"))
    assert all("href" not in to_html(part) for part in parts)
    assert "".join(plain_text(part) for part in parts) == f"x ({address})"


@pytest.mark.parametrize("character", ["&", "😀", "\u0800", '"', "\n&"])
def test_no_text_is_too_long_for_an_event(character: str) -> None:
    text = character * 9_000
    parts = split_styled(make_plain(text))
    for part in parts:
        rendered = render(part)
        assert len((rendered.body + rendered.html).encode()) <= MAX_BYTES
        assert utf16_length(plain_text(part)) <= LIMIT
    count = sum(plain_text(part).count(character[-1]) for part in parts)
    assert count == text.count(character[-1])


PIECES = st.sampled_from(
    [
        "a",
        " ",
        "\n",
        "\n\n",
        "> ",
        "```",
        "`",
        "**",
        "*",
        "~~",
        "# ",
        "- ",
        "[x](https://y.z)",
        "<b>",
        "&",
        "😀",
    ]
)
TAG = re.compile(r"<(/?)([a-z]+)[^>]*>")


@given(st.lists(PIECES, max_size=60).map("".join), st.integers(20, 200))
def test_html_is_balanced_and_has_no_quotation(text: str, limit: int) -> None:
    for part in split_styled(parse_markdown(text), limit):
        html = to_html(part)
        assert "<blockquote" not in html
        open_tags: list[str] = []
        for is_end, tag in TAG.findall(html):
            if tag == "br":
                continue
            if is_end:
                assert open_tags.pop() == tag
            else:
                open_tags.append(tag)
        assert open_tags == []
