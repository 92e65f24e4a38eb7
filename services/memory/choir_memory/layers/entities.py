"""Who and what facts are about, as nodes that lead to them: pure.

Called by `extraction` when a fact is kept and by `reminders` with a user's words. A node's id is made of its
name, so the same name is the same node, however it is spelled, and finding it needs no search. Nodes hold a
name and nothing else: what is known stands in facts, so erasing those leaves nothing.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from choir_memory.documents.row import document_id
from choir_memory.layers.known import Known
from choir_memory.words.tokens import query_terms

LONGEST_NAME = 4
"""Terms of a name; what takes more is a description."""
MOST_TERMS = 200
"""Of a message that are looked at."""
EVERYBODY = frozenset({"user", "assistant", "agent", "i", "me", "you", "it", "yes", "no"})
"""Names that every fact would bear."""


def entities_of(names: Iterable[str], at: datetime, trust: int) -> list[Known]:
    """Return the nodes of these names; of what is no name, none."""
    nodes = {}
    for name in names:
        terms = query_terms(name)
        if 1 <= len(terms) <= LONGEST_NAME and not EVERYBODY.issuperset(terms):
            node = _id(terms)
            nodes[node] = Known(
                document_id=node,
                kind="entity",
                text=" ".join(name.split()),
                origin="derived",
                trust=trust,
                happened_at=at,
            )
    return list(nodes.values())


def entity_ids(words: str) -> list[UUID]:
    """Return the ids of all the names that could stand in these words."""
    terms = query_terms(words)[:MOST_TERMS]
    runs = {
        tuple(terms[at : at + length])
        for at in range(len(terms))
        for length in range(1, min(LONGEST_NAME, len(terms) - at) + 1)
    }
    return [_id(run) for run in sorted(runs) if not EVERYBODY.issuperset(run)]


def _id(terms: Iterable[str]) -> UUID:
    return document_id("entity", *terms)
