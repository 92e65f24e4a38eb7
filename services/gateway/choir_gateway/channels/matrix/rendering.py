"""Rendering of marked text as Matrix's HTML and as the plain body, and its splitting. Pure.

Clients without HTML show the body. Quotations are for Choir's own words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from choir_gateway.channels.formatting.chunks import split_text, utf16_length
from choir_gateway.channels.formatting.styled import (
    Styled,
    TextMark,
    TextRun,
    count_shared_marks,
    plain_text,
)

LIMIT = 4_000
"""Maximum length of a message in UTF-16 units; longer ones are hard to read on a phone."""
MAX_BYTES = 40_000
"""Of body and HTML together: an event has at most 65,536 bytes, and its other fields need some."""
MAX_LINK = 1_000
"""A longer address is shown as text, which can be split."""

TAGS = {"b": "strong", "i": "em", "s": "del", "code": "code", "blockquote": "blockquote"}
# `> ` would be removed as the quotation of a reply, by the clients that know it.
OWN_PREFIX = "| "


@dataclass(frozen=True, slots=True)
class RenderedText:
    """A text in both forms."""

    body: str
    html: str


def split_styled(runs: Styled, limit: int = LIMIT) -> Sequence[Styled]:
    """Split a text into messages of at most `limit` characters that fit into an event.

    The cuts are those of `split_text`; code blocks are closed at a cut and opened again.
    """
    return [
        piece for part in split_text(_show_long_links(runs), limit) for piece in _fit(part, limit)
    ]


def render(runs: Styled) -> RenderedText:
    """Return a text in both forms."""
    return RenderedText(to_plain(runs), to_html(runs))


def to_html(runs: Styled) -> str:
    """Return HTML as Matrix allows it; tags are closed in the reverse order of opening."""
    out: list[str] = []
    open_marks: list[TextMark] = []
    for run in runs:
        shared_count = count_shared_marks(open_marks, run.marks)
        out += [_closing(mark) for mark in reversed(open_marks[shared_count:])]
        out += [_opening(mark) for mark in run.marks[shared_count:]]
        open_marks = list(run.marks)
        text = escape(run.text.replace("\r\n", "\n").replace("\r", "\n"), quote=False)
        is_code = any(mark.tag == "pre" for mark in run.marks)
        out.append(text if is_code else text.replace("\n", "<br>"))
    out += [_closing(mark) for mark in reversed(open_marks)]
    return "".join(out)


def to_plain(runs: Styled) -> str:
    """Return the text without marks: addresses follow their links, and quotations have a prefix."""
    out: list[str] = []
    for at, run in enumerate(runs):
        text = run.text
        for mark in run.marks:
            if mark.tag == "blockquote":
                text = _add_prefix(text)
            is_end = at + 1 == len(runs) or mark not in runs[at + 1].marks
            if mark.tag == "a" and is_end and mark.detail != run.text:
                text += f" ({mark.detail})"
        out.append(text)
    return "".join(out)


def _fit(part: Styled, limit: int) -> Sequence[Styled]:
    """Split a part again if marks and escapes make it too long for an event."""
    rendered = render(part)
    excess = len((rendered.body + rendered.html).encode()) / MAX_BYTES
    length = utf16_length(plain_text(part))
    if excess <= 1 or length <= 1:
        return [part]
    smaller = max(int(min(length, limit) / excess * 0.95), 1)
    return [text for piece in split_text(part, smaller) for text in _fit(piece, smaller)]


def _show_long_links(runs: Styled) -> Styled:
    pieces: list[TextRun] = []
    for run in runs:
        long_links = [mark for mark in run.marks if mark.tag == "a" and len(mark.detail) > MAX_LINK]
        marks = tuple(mark for mark in run.marks if mark not in long_links)
        pieces.append(TextRun(run.text, marks))
        pieces += [TextRun(f" ({mark.detail})") for mark in long_links]
    return tuple(pieces)


def _opening(mark: TextMark) -> str:
    match mark.tag:
        case "a":
            return f'<a href="{escape(mark.detail)}">'
        case "pre":
            language = f' class="language-{escape(mark.detail)}"' if mark.detail else ""
            return f"<pre><code{language}>"
        case tag:
            return f"<{TAGS[tag]}>"


def _closing(mark: TextMark) -> str:
    match mark.tag:
        case "a":
            return "</a>"
        case "pre":
            return "</code></pre>"
        case tag:
            return f"</{TAGS[tag]}>"


def _add_prefix(text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    end = "\n" if text.endswith("\n") else ""
    return "\n".join(f"{OWN_PREFIX}{line}" for line in lines) + end
