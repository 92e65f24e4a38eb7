"""Which occurrences of terms are in memory, and in which order they are returned."""

from collections.abc import Sequence

import numpy as np

from choir_memory.search.candidates import TermOccurrences
from choir_memory.search.term_cache import BYTES_PER_DOCUMENT, MIN_DOCUMENTS, TermCache

DOCUMENTS = 60
ROWS = {
    "the": range(DOCUMENTS),
    "boat": range(0, DOCUMENTS, 2),
    "tea": range(1, DOCUMENTS, 3),
    "noon": range(MIN_DOCUMENTS),
    "walnut": range(5),
    "quokka": range(0),
}
"""The documents that contain each term."""


def read(terms: Sequence[str]) -> TermOccurrences:
    """Return what the database would: all occurrences of `terms`, in their order."""
    pairs = [(row, number) for number, term in enumerate(terms) for row in ROWS[term]]
    rows, numbers = np.array(pairs, np.int64).reshape(-1, 2).T
    ranks = (0.06 * (rows + 1)).astype(np.float32)
    return TermOccurrences(rows, numbers, ranks.astype(np.float64))


def search(cache: TermCache, terms: Sequence[str]) -> tuple[TermOccurrences, list[str]]:
    """Return the occurrences of `terms`, and the terms that were read for it."""
    cached = cache.find(terms)
    unread = [term for term in terms if term not in cached]
    return cache.merge(terms, cached, read(unread)), unread


def assert_equal(found: TermOccurrences, expected: TermOccurrences) -> None:
    for column in ("rows", "terms", "ranks"):
        ours, theirs = getattr(found, column), getattr(expected, column)
        assert (ours == theirs).all() and ours.dtype == theirs.dtype


def test_cached_and_read_terms_give_the_occurrences_of_one_statement() -> None:
    cache = TermCache(DOCUMENTS)
    for terms in (["boat", "walnut"], ["quokka", "tea", "boat"], ["tea", "walnut", "boat"], []):
        assert_equal(search(cache, terms)[0], read(terms))


def test_only_common_terms_are_cached() -> None:
    cache = TermCache(DOCUMENTS)
    search(cache, ["boat", "walnut", "quokka"])
    assert len(ROWS["walnut"]) < MIN_DOCUMENTS <= len(ROWS["boat"])
    assert search(cache, ["walnut", "boat", "quokka"])[1] == ["walnut", "quokka"]


def test_a_full_cache_drops_the_term_that_was_not_used_for_the_longest_time() -> None:
    # room for all occurrences of "boat" and "tea", eight bytes each, but not of a third term
    cache = TermCache(8 * (len(ROWS["boat"]) + len(ROWS["tea"])) // BYTES_PER_DOCUMENT + 1)
    search(cache, ["boat"])
    search(cache, ["tea"])
    search(cache, ["boat"])
    search(cache, ["noon"])
    assert search(cache, ["boat", "tea"])[1] == ["tea"]


def test_a_term_that_was_dropped_during_a_search_is_still_found_by_it() -> None:
    cache = TermCache(DOCUMENTS)
    search(cache, ["boat"])
    cached = cache.find(["boat", "tea"])
    cache.max_bytes = 0
    search(cache, ["the"])
    assert_equal(cache.merge(["boat", "tea"], cached, read(["tea"])), read(["boat", "tea"]))
