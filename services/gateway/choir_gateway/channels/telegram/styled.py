"""Text with marks (bold, code, links) and its rendering as Telegram's HTML. Pure.

Made by `markdown`, split by `chunks`, sent by `sender`. A run carries all of its marks, so a cut
between any two characters leaves two valid texts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

Tag = Literal["b", "i", "s", "code", "pre", "a", "blockquote"]


@dataclass(frozen=True, slots=True)
class TextMark:
    """A mark on a piece of text; adjacent runs with the same number are one piece."""

    tag: Tag
    number: int
    detail: str = ""
    """The address of a link, or the language of a code block."""


@dataclass(frozen=True, slots=True)
class TextRun:
    """Characters with the same marks, outermost mark first."""

    text: str
    marks: tuple[TextMark, ...] = ()


Styled = Sequence[TextRun]


def plain_text(runs: Styled) -> str:
    """Return the text without marks."""
    return "".join(run.text for run in runs)


def make_plain(text: str) -> Styled:
    """Return a text as a single run without marks."""
    return (TextRun(text),) if text else ()


def make_own(text: str) -> Styled:
    """Return a text of Choir itself as a quotation, a form that no text of an agent has."""
    return (TextRun(text, (TextMark("blockquote", 1),)),) if text else ()


def to_html(runs: Styled) -> str:
    """Return Telegram's HTML; tags are closed in the reverse order of opening."""
    out: list[str] = []
    open_marks: list[TextMark] = []
    for run in runs:
        shared_count = _shared(open_marks, run.marks)
        out += [_closing(mark) for mark in reversed(open_marks[shared_count:])]
        out += [_opening(mark) for mark in run.marks[shared_count:]]
        open_marks = list(run.marks)
        out.append(escape(run.text, quote=False))
    out += [_closing(mark) for mark in reversed(open_marks)]
    return "".join(out)


def slice_runs(runs: Styled, start: int, end: int) -> Styled:
    """Return the characters from `start` to `end` with their marks."""
    pieces: list[TextRun] = []
    at = 0
    for run in runs:
        piece = run.text[max(0, start - at) : max(0, end - at)]
        if piece:
            pieces.append(TextRun(piece, run.marks))
        at += len(run.text)
    return tuple(pieces)


def mark_spans(runs: Styled) -> Iterable[tuple[int, int]]:
    """Return the start and the end of each mark."""
    spans: dict[TextMark, tuple[int, int]] = {}
    at = 0
    for run in runs:
        for mark in run.marks:
            spans[mark] = (spans.get(mark, (at, at))[0], at + len(run.text))
        at += len(run.text)
    return spans.values()


def _shared(before: Sequence[TextMark], now: Sequence[TextMark]) -> int:
    count = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        count += 1
    return count


def _opening(mark: TextMark) -> str:
    match mark.tag:
        case "a":
            return f'<a href="{escape(mark.detail)}">'
        case "pre" if mark.detail:
            return f'<pre><code class="language-{escape(mark.detail)}">'
        case tag:
            return f"<{tag}>"


def _closing(mark: TextMark) -> str:
    return "</code></pre>" if mark.tag == "pre" and mark.detail else f"</{mark.tag}>"
