"""Text with marks (bold, code, links). Pure.

Made by `markdown`, split by `chunks`, rendered and sent by a channel. A run carries all of its marks,
so a cut between any two characters leaves two valid texts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


def count_shared_marks(before: Sequence[TextMark], now: Sequence[TextMark]) -> int:
    """Return how many of the outermost marks two runs share."""
    count = 0
    for old, new in zip(before, now, strict=False):
        if old != new:
            break
        count += 1
    return count
