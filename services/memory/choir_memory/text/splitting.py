"""Split a long text into passages, and extract the part that is relevant to a question: pure.

An embedding model reads a passage completely. Each passage gets its own vector, and the similarity of a
document is that of its nearest passage.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from choir_memory.text.tokens import document_tokens

ELLIPSIS = "…"
MAX_PIECE_CHARS = 100
"""Maximum length of a piece; longer sentences are split, so that an excerpt can start inside of one."""
_SENTENCES = re.compile(r".+?(?:[.!?](?=\s)|[。！？]|\n|$)\s*", re.DOTALL)
_WORDS = re.compile(rf".{{1,{MAX_PIECE_CHARS}}}(?:\s+|$)|.{{{MAX_PIECE_CHARS}}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    terms: frozenset[str]
    """Terms of the question that occur in the piece."""


def extract_excerpt(text: str, terms: Collection[str], size: int) -> str:
    """Return the part of `text` with the most of `terms`, about `size` characters; `…` marks a cut.

    A term weighs more the fewer pieces contain it. If no term occurs, the beginning of the text is
    returned.
    """
    if len(text) <= size:
        return text
    pieces = list(_pieces(text, frozenset(terms)))
    first, last = _grow(pieces, *_best_run(pieces, size), size)
    start, end = pieces[first].start, min(pieces[last].end, pieces[first].start + size)
    before, after = ELLIPSIS if start else "", ELLIPSIS if end < len(text.rstrip()) else ""
    return f"{before}{text[start:end].strip()}{after}"


def _pieces(text: str, terms: frozenset[str]) -> Iterator[_Piece]:
    for sentence in _SENTENCES.finditer(text):
        for words in _WORDS.finditer(text, *sentence.span()):
            matches = terms.intersection(document_tokens(words.group()))
            yield _Piece(*words.span(), matches)


def _best_run(pieces: list[_Piece], size: int) -> tuple[int, int]:
    """Return the first and last piece of the run with the highest weight; the first one of equals."""
    weights = {
        term: 1 / sum(term in piece.terms for piece in pieces)
        for term in frozenset[str]().union(*(piece.terms for piece in pieces))
    }
    best, most = (0, 0), 0.0
    matching = [at for at, piece in enumerate(pieces) if piece.terms]
    for index, first in enumerate(matching):
        covered: set[str] = set()
        for last in matching[index:]:
            if last > first and pieces[last].end - pieces[first].start > size:
                break
            covered |= pieces[last].terms
            worth = sum(weights[term] for term in covered)
            if worth > most:
                best, most = (first, last), worth
    return best


def _grow(pieces: list[_Piece], first: int, last: int, size: int) -> tuple[int, int]:
    """Extend the run by one piece at the end and at the start alternately, while they fit."""
    grown = True
    while grown:
        grown = False
        if last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= size:
            last, grown = last + 1, True
        if first and pieces[last].end - pieces[first - 1].start <= size:
            first, grown = first - 1, True
    return first, last


PASSAGE_CHARS = 900
"""Maximum characters: about 200 tokens of English; the offline model reads 256 tokens and drops the rest."""
DENSE_PASSAGE_CHARS = 220
"""Maximum characters for scripts in which each character is a token."""
MAX_PASSAGES = 128
"""Enough for the longest text that the wire allows, 100,000 characters."""
FIRST_SENTENCE_PART = 1_000
"""Number of the first sentence among the parts of a document; smaller numbers are passages."""

_BREAK = re.compile(r"(?<=[.!?])\s+|(?<=[。！？\n])\s*")


def split_passages(text: str) -> list[str]:
    """Return `text` in passages that end at a sentence where possible; at least one."""
    size = PASSAGE_CHARS if _is_spaced(text) else DENSE_PASSAGE_CHARS
    pieces: list[str] = []
    passage = ""
    for sentence in filter(None, _BREAK.split(text.strip())):
        if passage and len(passage) + 1 + len(sentence) > size:
            pieces.append(passage)
            passage = ""
        passage = f"{passage} {sentence}" if passage else sentence
        while len(passage) > size:
            end = passage.rfind(" ", size // 2, size)
            end = end if end > 0 else size
            pieces.append(passage[:end])
            passage = passage[end:].lstrip()
    if passage or not pieces:
        pieces.append(passage)
    return pieces[:MAX_PASSAGES]


def _is_spaced(text: str) -> bool:
    return sum(char > "\u0e00" for char in text) * 4 < len(text)
