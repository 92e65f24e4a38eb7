"""Find the words of a vocabulary that a misspelt word may stand for: pure.

Four of five misspellings are one edit away from the word: a letter too many, missing, wrong, or swapped with
the next one. The first letter is rarely wrong, so it must agree.
"""

import re
from collections.abc import Iterable
from typing import Literal

Edit = Literal["swap", "missing", "extra", "other letter"]
_EDITS: tuple[Edit, ...] = ("swap", "missing", "extra", "other letter")
"""The likeliest first: one letter for another also makes many different words (`pool`, `poor`)."""
MAX_SIMILAR_WORDS = 3
"""Words that replace a misspelt one; with more, it is unclear which one is meant."""
_SPELLED = re.compile(r"[a-z]{4,32}")


def is_spelled(term: str) -> bool:
    """Return whether a term is a word of 4 to 32 Latin letters, the only ones that are corrected."""
    return _SPELLED.fullmatch(term) is not None


def find_similar(term: str, words: Iterable[str]) -> tuple[str, ...]:
    """Return the words one edit away from a term, the likeliest first; none if the term is one of `words`."""
    vocabulary = set(words)
    if term in vocabulary:
        return ()
    similar = [
        (edit, word) for word in vocabulary if (edit := edit_between(term, word)) is not None
    ]
    similar.sort(key=lambda candidate: (_EDITS.index(candidate[0]), candidate[1]))
    return tuple(word for _, word in similar[:MAX_SIMILAR_WORDS])


def edit_between(term: str, word: str) -> Edit | None:
    """Return the single edit that makes `word` of `term`, or None; the first letters must be equal."""
    if term[:1] != word[:1] or abs(len(term) - len(word)) > 1:
        return None
    start = _common_start(term, word)
    end = _common_start(term[start:][::-1], word[start:][::-1])
    has, needs = term[start : len(term) - end], word[start : len(word) - end]
    match len(has), len(needs):
        case 0, 1:
            return "missing"
        case 1, 0:
            return "extra"
        case 1, 1:
            return "other letter"
        case 2, 2 if has == needs[::-1]:
            return "swap"
        case _:
            return None


def _common_start(first: str, second: str) -> int:
    for at, (mine, yours) in enumerate(zip(first, second, strict=False)):
        if mine != yours:
            return at
    return min(len(first), len(second))
