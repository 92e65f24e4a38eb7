"""The typo arm: search for similar words in place of query words that occur nowhere in the space.

It runs after the other arms, and only if they found a word in no document. So a query whose words are all
known costs nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from choir_common.postgres.pool import Connection
from choir_common.wire.memory_search import Arm
from choir_memory.search.candidates import ARM_LIMIT, ArmResult, CandidateTable
from choir_memory.search.corpus_store import CorpusCache
from choir_memory.search.neighbourhood import Floats
from choir_memory.search.retrieval import RetrievalQuery, RetrievalResult, retrieve
from choir_memory.search.space_cache import SpaceCache
from choir_memory.search.text_arm_store import MAX_TERMS, TextResult
from choir_memory.search.vocabulary_store import read_candidate_words
from choir_memory.text.spelling import find_similar, is_spelled

MAX_MISSPELT = 4
"""Words of a query that are corrected; a query with more unknown words is about something else."""
SimilarWords = Mapping[str, tuple[str, ...]]
"""The similar words that are searched for in place of each misspelt one."""


@dataclass(frozen=True, slots=True)
class TypoResult:
    """A retrieval in which similar words count as the misspelt ones."""

    result: RetrievalResult
    similar: SimilarWords = field(default_factory=dict)
    """Only words that occur in the documents of the search."""


def unknown_terms(terms: Sequence[str], text: TextResult) -> list[str]:
    """Return the words of a query that no document contains and that may be misspelt."""
    counts = dict(zip(text.terms, text.counts, strict=True)) if text.terms else {}
    # without any match the arm returns no terms; otherwise it leaves out only what it does not need
    unknown = [term for term in terms if counts.get(term, 1 if text.terms else 0) == 0]
    return [term for term in unknown if is_spelled(term)][:MAX_MISSPELT]


async def retrieve_similar(
    connection: Connection,
    query: RetrievalQuery,
    *,
    corpora: CorpusCache,
    spaces: SpaceCache,
    first: RetrievalResult,
) -> TypoResult:
    """Return `first`, or a new retrieval with the similar words of those that no document contains."""
    terms = list(query.terms or ())
    own = [term for term in terms if term not in query.added]
    unknown = unknown_terms(own, first.text)
    if not unknown:
        return TypoResult(first)
    candidates = await read_candidate_words(connection, query.scope, unknown)
    similar = _select(terms, {term: candidates.get(term, ()) for term in unknown})
    if not similar:
        return TypoResult(first)
    words = dict.fromkeys(word for words in similar.values() for word in words)
    searched = [*(term for term in terms if term not in similar), *words]
    again = replace(query, terms=searched, vectors=first.vectors)
    second = await retrieve(connection, again, corpora=corpora, spaces=spaces)
    return merge_similar(first, second, similar)


def _select(terms: Sequence[str], candidates: Mapping[str, Sequence[str]]) -> SimilarWords:
    """Return the similar words of each misspelt one, as many as the text arm has room for."""
    similar: dict[str, tuple[str, ...]] = {}
    room = MAX_TERMS - len(terms)
    for term, words in candidates.items():
        # a word of the query itself counts as such
        replacements = tuple(word for word in find_similar(term, words) if word not in terms)
        # a misspelt word is replaced, so the first of its words needs no room
        if replacements and len(replacements) - 1 <= room:
            similar[term] = replacements
            room -= len(replacements) - 1
    return similar


def merge_similar(
    first: RetrievalResult, again: RetrievalResult, similar: SimilarWords
) -> TypoResult:
    """Return the second retrieval with one column of term frequencies for each misspelt word.

    The lists of the other arms are those of the first retrieval. Without a document that contains one of
    the similar words, the first retrieval stays.
    """
    at = {term: column for column, term in enumerate(again.text.terms)}
    occurring = {
        term: occurring_words
        for term, words in similar.items()
        if (occurring_words := tuple(w for w in words if w in at and again.text.counts[at[w]] > 0))
    }
    if not occurring:
        return TypoResult(first)
    replaced = {word for words in similar.values() for word in words}
    exact = [column for term, column in at.items() if term not in replaced]
    material, documents = again.material, again.text.documents
    merged = [
        material.counts[:, [at[word] for word in words]].max(axis=1) for words in occurring.values()
    ]
    text = replace(
        again.text,
        hits=first.text.hits,
        terms=[*(again.text.terms[column] for column in exact), *occurring],
        counts=[
            *(again.text.counts[column] for column in exact),
            *(
                min(documents, sum(again.text.counts[at[word]] for word in words))
                for words in occurring.values()
            ),
        ],
    )
    counts = np.column_stack([material.counts[:, exact], *merged])
    lists: dict[Arm, Sequence[ArmResult]] = {
        **first.lists,
        "typo": _hits(material, np.column_stack(merged)),
    }
    return TypoResult(
        RetrievalResult(material.with_counts(counts), text, again.vectors, lists), occurring
    )


def _hits(material: CandidateTable, counts: Floats) -> list[ArmResult]:
    """Return the documents with similar words: the more of the misspelt words they match, the better."""
    scores = (counts > 0).sum(axis=1).astype(np.float64)
    rows = np.flatnonzero(material.eligible & (scores > 0))
    best = material.top_rows(rows, scores, ARM_LIMIT)
    return [ArmResult(material.ids[at], rank, float(scores[at])) for rank, at in enumerate(best, 1)]
