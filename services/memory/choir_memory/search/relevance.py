"""Relevance of a document to a query, comparable between queries, spaces and embedding models: pure.

A score ranks the documents of one search. It does not say whether memory contains an answer at all: some
document is always the nearest one. Relevance is the similarity of the document above the average of the
space, plus a third of the share of the query that it contains.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from choir_memory.search.neighbourhood import Floats
from choir_memory.text.tokens import is_pair

TEXT_WEIGHT = 1 / 3
"""Weight of the shared words beside a similarity; without one they count fully."""
FEW_DOCUMENTS = 5
"""Number of documents whose average similarity counts half."""


def average_similarity(mean_cosine: float, documents: int) -> float:
    """Return the similarity of an unrelated document; in a space of few documents all may be related."""
    return max(0.0, mean_cosine) * documents / (documents + FEW_DOCUMENTS)


def estimate_relevance(
    cosines: Floats, average: float, text: Floats, matches: npt.NDArray[np.bool_]
) -> Floats:
    """Return the relevance of documents.

    `average` is the similarity of an unrelated document. `cosines` are NaN for documents without a vector,
    or all if the model does not support the language. `text` is the share of the query's information, which
    may come from neighbours; `matches` says which documents contain a word of the query themselves.
    """
    # models differ in their average similarity, also between texts of one language
    similarity = np.maximum(0.0, cosines - average) / max(1 - average, 1e-6)
    by_words: Floats = np.where(matches, text, 0.0)
    both: Floats = similarity + TEXT_WEIGHT * text
    return np.where(np.isnan(similarity), by_words, both)


def find_split_pairs(terms: Sequence[str], counts: Sequence[int]) -> list[int]:
    """Return which terms are pairs of characters that span two words: no document contains them, but a pair
    that shares one of their characters.

    Text without spaces is searched by pairs. Such a pair says nothing about the query, and would count as its
    rarest term.
    """
    present_pairs = [
        term for term, count in zip(terms, counts, strict=True) if count and is_pair(term)
    ]
    firsts, lasts = {term[0] for term in present_pairs}, {term[-1] for term in present_pairs}
    return [
        at
        for at, (term, count) in enumerate(zip(terms, counts, strict=True))
        if not count and is_pair(term) and (term[0] in lasts or term[-1] in firsts)
    ]
