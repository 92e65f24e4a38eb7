"""Cut a long text to the part that a question is about: pure. Called by `layers.reminders`."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from choir_memory.words.tokens import document_tokens

CUT = "…"
PIECE_CHARS = 100
"""Characters of a piece; a longer sentence is several, so that the part can begin inside it."""
_SENTENCES = re.compile(r".+?(?:[.!?](?=\s)|[。！？]|\n|$)\s*", re.DOTALL)
_WORDS = re.compile(rf".{{1,{PIECE_CHARS}}}(?:\s+|$)|.{{{PIECE_CHARS}}}", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    terms: frozenset[str]
    """Of the question's."""


def excerpt(text: str, terms: Collection[str], size: int) -> str:
    """Return the part of `text` that holds most of `terms`, about `size` characters; `…` marks a cut.

    A term counts for more the fewer pieces of the text hold it. Without any term the text's beginning is
    returned.
    """
    if len(text) <= size:
        return text
    pieces = list(_pieces(text, frozenset(terms)))
    first, last = _grow(pieces, *_best_run(pieces, size), size)
    start, end = pieces[first].start, min(pieces[last].end, pieces[first].start + size)
    before, after = CUT if start else "", CUT if end < len(text.rstrip()) else ""
    return f"{before}{text[start:end].strip()}{after}"


def _pieces(text: str, terms: frozenset[str]) -> Iterator[_Piece]:
    for sentence in _SENTENCES.finditer(text):
        for words in _WORDS.finditer(text, *sentence.span()):
            held = terms.intersection(document_tokens(words.group()))
            yield _Piece(*words.span(), held)


def _best_run(pieces: list[_Piece], size: int) -> tuple[int, int]:
    """Return the first and last matching piece of the run that holds the most; the first run of equals."""
    weights = {
        term: 1 / sum(term in piece.terms for piece in pieces)
        for term in frozenset[str]().union(*(piece.terms for piece in pieces))
    }
    best, most = (0, 0), 0.0
    matching = [at for at, piece in enumerate(pieces) if piece.terms]
    for place, first in enumerate(matching):
        held: set[str] = set()
        for last in matching[place:]:
            if last > first and pieces[last].end - pieces[first].start > size:
                break
            held |= pieces[last].terms
            worth = sum(weights[term] for term in held)
            if worth > most:
                best, most = (first, last), worth
    return best


def _grow(pieces: list[_Piece], first: int, last: int, size: int) -> tuple[int, int]:
    """Add pieces behind and before in turn while they fit."""
    grown = True
    while grown:
        grown = False
        if last + 1 < len(pieces) and pieces[last + 1].end - pieces[first].start <= size:
            last, grown = last + 1, True
        if first and pieces[last].end - pieces[first - 1].start <= size:
            first, grown = first - 1, True
    return first, last
