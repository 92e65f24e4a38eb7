"""Extract the entities that facts and messages mention: pure.

An entity's id is derived from its normalised name, so different spellings give the same entity, and it is
found without a search. Entities contain only a name; facts link to them, so erasing the facts leaves no
information.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from choir_memory.documents.model import document_id
from choir_memory.knowledge.derived_store import DerivedDocument
from choir_memory.text.tokens import query_terms

MAX_NAME_TERMS = 4
"""Maximum terms of a name; anything longer is a description."""
MAX_MESSAGE_TERMS = 200
"""Terms of a message that are looked up."""
NOT_NAMES = frozenset({"user", "assistant", "agent", "i", "me", "you", "it", "yes", "no"})
"""Words that are not names, although almost every fact mentions them."""


def entities_of(names: Iterable[str], at: datetime, trust: int) -> list[DerivedDocument]:
    """Return the entities for these names; strings that are not names are skipped."""
    nodes = {}
    for name in names:
        terms = query_terms(name)
        if 1 <= len(terms) <= MAX_NAME_TERMS and not NOT_NAMES.issuperset(terms):
            node = _id(terms)
            nodes[node] = DerivedDocument(
                document_id=node,
                kind="entity",
                text=" ".join(name.split()),
                origin="derived",
                trust=trust,
                happened_at=at,
            )
    return list(nodes.values())


def entity_ids(text: str) -> list[UUID]:
    """Return the ids of all entities that this text could mention."""
    terms = query_terms(text)[:MAX_MESSAGE_TERMS]
    runs = {
        tuple(terms[at : at + length])
        for at in range(len(terms))
        for length in range(1, min(MAX_NAME_TERMS, len(terms) - at) + 1)
    }
    return [_id(run) for run in sorted(runs) if not NOT_NAMES.issuperset(run)]


def _id(terms: Iterable[str]) -> UUID:
    return document_id("entity", *terms)
