"""Facts that link what a question names."""

from uuid import UUID

from choir_memory.search.entity_facts import DIRECT, INDIRECT, EntityFact, select_linking_facts

ANNA, TOM, OSLO, CHESS = (UUID(int=number) for number in range(1, 5))


def fact(number: int, *entities: UUID, predicate: str = "knows") -> EntityFact:
    return EntityFact(UUID(int=100 + number), predicate, frozenset(entities))


def selected(*facts: EntityFact, named: set[UUID], terms: str = "") -> dict[int, float]:
    weights = select_linking_facts(facts, named, terms.split())
    return {fact_id.int - 100: weight for fact_id, weight in weights.items()}


def test_a_fact_about_two_named_entities_links_them() -> None:
    facts = (fact(1, ANNA, TOM), fact(2, ANNA, OSLO), fact(3, TOM))
    assert selected(*facts, named={ANNA, TOM}) == {1: DIRECT}


def test_two_facts_that_share_a_third_entity_link_them() -> None:
    facts = (fact(1, ANNA, OSLO), fact(2, TOM, OSLO), fact(3, TOM, CHESS))
    assert selected(*facts, named={ANNA, TOM}) == {1: INDIRECT, 2: INDIRECT}


def test_a_named_relation_selects_the_fact_that_states_it() -> None:
    facts = (fact(1, ANNA, OSLO, predicate="lives_in"), fact(2, ANNA, CHESS, predicate="plays"))
    assert selected(*facts, named={ANNA}, terms="liv") == {1: INDIRECT}


def test_one_name_alone_selects_nothing() -> None:
    assert selected(fact(1, ANNA, OSLO), fact(2, ANNA, CHESS), named={ANNA}, terms="when") == {}
