"""Select the facts that link what a question names: pure.

A question such as "Which city did Anna and Tom meet in" is answered by facts about both, and these may share
no word with the turns that support them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_memory.text.tokens import query_terms

DIRECT, INDIRECT = 1.0, 0.7
"""Weight of a fact that mentions two of the named entities; of one that states the relation in question, or
that leads from one entity to another by a third."""
MIN_NAMED = 2


@dataclass(frozen=True, slots=True)
class EntityFact:
    """A fact about a named entity; other names of that entity are replaced by the name in the question."""

    fact_id: UUID
    predicate: str
    entities: frozenset[UUID]


def select_linking_facts(
    facts: Sequence[EntityFact], named: Collection[UUID], terms: Collection[str]
) -> dict[UUID, float]:
    """Return the weights of the facts that link the `named` entities, or that state a relation of one.

    `terms` are the content words of the question.
    """
    between = _shared_entities(facts, named)
    weights = {}
    for fact in facts:
        mentioned = fact.entities.intersection(named)
        if len(mentioned) >= MIN_NAMED:
            weights[fact.fact_id] = DIRECT
        elif mentioned and (_states_relation(fact, terms) or fact.entities & between):
            weights[fact.fact_id] = INDIRECT
    return weights


def _shared_entities(facts: Sequence[EntityFact], named: Collection[UUID]) -> set[UUID]:
    """Return the entities that facts about two different named ones mention."""
    named_by_other: dict[UUID, set[UUID]] = {}
    for fact in facts:
        mentioned = fact.entities.intersection(named)
        for other in fact.entities.difference(named):
            named_by_other.setdefault(other, set()).update(mentioned)
    return {other for other, names in named_by_other.items() if len(names) >= MIN_NAMED}


def _states_relation(fact: EntityFact, terms: Collection[str]) -> bool:
    return not set(terms).isdisjoint(query_terms(fact.predicate))
