"""Choose which words of a query find documents in a large space. Pure; called by `text_arm_store`.

A word that every tenth document holds finds too many to weigh, and tells little. The rare ones find, within a
budget of rows; all of them weigh what was found. Of the others documents are looked for that hold several at
once: the rare one may be misspelt, or there may be none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_memory.search.corpus_store import Corpus

ROWS = 2_000
"""Documents that may be looked at for one query: a few milliseconds, and several times what an arm names."""
LEAST_ROWS = 200
"""That any word may find: as many as an arm names."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The words of a query with what is known of each, and the conditions that find documents."""

    terms: Sequence[str]
    held: Sequence[float | None]
    """How many documents hold each; None for the rare ones, which are counted when they are looked for."""
    finders: Sequence[tuple[str, ...]]
    """Each a condition: all of its words. The first stands for the first term, and so on."""
    rows: int
    """That each may find."""


def choose(terms: Sequence[str], corpus: Corpus, most: int) -> Chosen:
    """Return the `most` rarest of `terms`, and how to find what holds them."""
    known = {term: corpus.common.get(term) for term in terms}
    ordered = sorted(terms, key=lambda term: known[term] or 0.0)[:most]
    held = [
        None if (share := known[term]) is None else share * corpus.documents for term in ordered
    ]
    single = _single(held)
    finders: list[tuple[str, ...]] = [(term,) for term in ordered[:single]]
    if single < len(ordered):
        finders.append(_together(ordered[single:], corpus))
    return Chosen(ordered, held, finders, max(LEAST_ROWS, ROWS // len(finders)))


def _single(held: Sequence[float | None]) -> int:
    """Return how many words, the rarest first, fit into the budget."""
    taken = 0.0
    for at, documents in enumerate(held):
        taken += documents or 0.0
        if taken > ROWS:
            return at
    return len(held)


def _together(common: Sequence[str], corpus: Corpus) -> tuple[str, ...]:
    """Return the fewest words that, if they were spread by chance, only few documents hold at once."""
    expected = float(corpus.documents)
    for at, term in enumerate(common, 1):
        expected *= corpus.common[term]
        if expected <= ROWS:
            return tuple(common[:at])
    return tuple(common)
