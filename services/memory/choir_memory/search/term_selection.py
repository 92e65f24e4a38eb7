"""Select the terms that retrieve documents in a large space. Pure.

A term that every tenth document contains retrieves too many to rank, and discriminates little. Rare terms
retrieve, within a budget of rows; all terms contribute to the score of what was retrieved. In addition,
the rarest of the common terms are combined with AND, in case a rare term is misspelt or there is none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_memory.search.corpus_store import CorpusStatistics

ROW_BUDGET = 2_000
"""Documents to look at per query: takes a few milliseconds, and is several times the depth of an arm."""
MIN_ROWS = 200
"""Minimum number of documents that each condition may retrieve."""


@dataclass(frozen=True, slots=True)
class SelectedTerms:
    """The selected terms of a query with their frequencies, and the conditions that retrieve documents."""

    terms: Sequence[str]
    document_counts: Sequence[float | None]
    """Number of documents that contain each term; None for rare terms, which are counted during
    retrieval."""
    finders: Sequence[tuple[str, ...]]
    """Conditions, each an AND of its terms. The first is for the first term, and so on."""
    rows: int
    """Maximum rows per condition."""


def select_terms(terms: Sequence[str], corpus: CorpusStatistics, most: int) -> SelectedTerms:
    """Return the `most` rarest of `terms`, and the conditions that retrieve documents with them."""
    shares = {term: corpus.common.get(term) for term in terms}
    rarest_terms = sorted(terms, key=lambda term: shares[term] or 0.0)[:most]
    counts = [
        None if (share := shares[term]) is None else share * corpus.documents
        for term in rarest_terms
    ]
    single = _single(counts)
    finders: list[tuple[str, ...]] = [(term,) for term in rarest_terms[:single]]
    if single < len(rarest_terms):
        finders.append(_together(rarest_terms[single:], corpus))
    return SelectedTerms(rarest_terms, counts, finders, max(MIN_ROWS, ROW_BUDGET // len(finders)))


def _single(counts: Sequence[float | None]) -> int:
    """Return how many terms, the rarest first, fit into the row budget."""
    total = 0.0
    for at, documents in enumerate(counts):
        total += documents or 0.0
        if total > ROW_BUDGET:
            return at
    return len(counts)


def _together(common: Sequence[str], corpus: CorpusStatistics) -> tuple[str, ...]:
    """Return the fewest terms with a conjunction that should match few documents, assuming independence."""
    expected = float(corpus.documents)
    for at, term in enumerate(common, 1):
        expected *= corpus.common[term]
        if expected <= ROW_BUDGET:
            return tuple(common[:at])
    return tuple(common)
