"""A model's Markdown as Telegram shows it."""

from datetime import UTC, datetime
from typing import get_args

import pytest

from choir_common.wire.events import ReplyKind
from choir_common.wire.messages import OutboundMessage
from choir_gateway.channels.formatting.markdown import parse_markdown
from choir_gateway.channels.telegram.html import to_html
from choir_gateway.channels.telegram.parts import TextPart, split_message


def html(text: str) -> str:
    return to_html(parse_markdown(text))


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("**bold** *it* ~~gone~~ `a<b`", "<b>bold</b> <i>it</i> <s>gone</s> <code>a&lt;b</code>"),
        ("***both***", "<i><b>both</b></i>"),
        ("**bold `code` on**", "<b>bold </b><code>code</code><b> on</b>"),
        ("# Title *here*\ntext", "<b>Title <i>here</i></b>\n\ntext"),
        ('[so](https://x.y/?a=1&b="2")', '<a href="https://x.y/?a=1&amp;b=%222%22">so</a>'),
        ("[notes](notes.md)", "notes (notes.md)"),
        ("![a cat](http://x.y/cat.png)", '<a href="http://x.y/cat.png">a cat</a>'),
        ("- one\n- two\n  - deeper\n", "• one\n• two\n  ◦ deeper"),
        ("3. c\n4. d", "3. c\n4. d"),
        ("> said\n> so\n\nthen", "<i>said\nso</i>\n\nthen"),
        ("```sh\nls -l\n```", '<pre><code class="language-sh">ls -l</code></pre>'),
        ("```\na\n```\nb", "<pre>a</pre>\n\nb"),
        ("a\n\n---\n\nb", "a\n\n———\n\nb"),
        ("| a | long |\n|---|:-:|\n| **1** | `2` |", "<pre>a  long\n-  ----\n1  2</pre>"),
    ],
)
def test_markdown_is_said_in_telegrams_html(written: str, shown: str) -> None:
    assert html(written) == shown


@pytest.mark.parametrize(
    "written",
    [
        "<b>tag</b> &amp; 1 < 2",
        "snake_case_name",
        "[x]: http://y.z",
        "    indented",
        "2 * 3 * 4",
        "a_b",
        "**open",
        "`",
        "#",
        "- ",
        "a\nb",
        "https://x.y/a_b_c",
        "C:\\dir",
    ],
)
def test_what_is_no_markup_stays_as_it_is_written(written: str) -> None:
    shown = html(written).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    assert shown.strip() == written.strip()


@pytest.mark.parametrize(
    "written", ["> a", "<blockquote>a</blockquote>", "> > `a`", "- > a", ">a\n>\n> b"]
)
def test_only_choirs_own_words_are_quotations(written: str) -> None:
    for kind in get_args(ReplyKind):
        assert "<blockquote>" not in shown(outbound(written, session_id="s", kind=kind))
        own = shown(outbound(written, kind=kind))
        assert own.startswith("<blockquote>") and own.endswith("</blockquote>")


def outbound(
    text: str, session_id: str | None = None, kind: ReplyKind = "notice"
) -> OutboundMessage:
    return OutboundMessage(
        outbox_id=1,
        dm="d",
        gateway="g",
        agent_id="choir" if session_id is None else "main",
        session_id=session_id,
        rev=None,
        kind=kind,
        text=text,
        answers=None,
        at=datetime.now(UTC),
    )


def shown(message: OutboundMessage) -> str:
    (part,) = split_message(message)
    assert isinstance(part, TextPart)
    return to_html(part.styled)
