"""Which words of a query find documents in a large space."""

from choir_memory.search.corpus_store import CorpusStatistics
from choir_memory.search.term_selection import MIN_ROWS, ROW_BUDGET, select_terms

LARGE = CorpusStatistics(
    documents=1_000_000,
    common={"the": 0.9, "work": 0.05, "garden": 0.02, "violin": 0.001},
)


def test_rare_words_find_and_common_ones_only_weigh() -> None:
    chosen = select_terms(["the", "violin", "quokka", "work"], LARGE, 16)
    assert chosen.finders == [("quokka",), ("violin",), ("work", "the")]
    assert chosen.terms == ["quokka", "violin", "work", "the"]
    assert chosen.document_counts == [None, 1_000, 50_000, 900_000]


def test_no_more_documents_are_looked_at_than_the_budget_allows() -> None:
    for terms in (["violin"], ["violin", "quokka"], [f"rare{n}" for n in range(16)]):
        chosen = select_terms(terms, LARGE, 16)
        assert MIN_ROWS <= chosen.rows <= ROW_BUDGET
        assert chosen.rows * len(chosen.finders) <= max(ROW_BUDGET, MIN_ROWS * len(chosen.finders))


def test_of_common_words_those_documents_are_found_that_hold_several() -> None:
    chosen = select_terms(["the", "work", "garden"], LARGE, 16)
    assert chosen.finders == [("garden", "work")]
    assert select_terms(["the", "work", "quokka"], LARGE, 16).finders[0] == ("quokka",)
    assert select_terms(["the"], LARGE, 16).finders == [("the",)]


def test_of_a_long_query_the_rarest_words_are_taken() -> None:
    chosen = select_terms([*LARGE.common, "quokka"], LARGE, 3)
    assert chosen.terms == ["quokka", "violin", "garden"]
