"""The ids of entities, by their names: pure.

An entity's id is derived from its normalised name, so different spellings give the same entity, and it is
found without a search.
"""

from collections.abc import Iterable, Sequence
from uuid import UUID

from choir_memory.documents.model import document_id
from choir_memory.text.tokens import query_terms

MAX_NAME_TERMS = 4
"""Maximum terms of a name; anything longer is a description."""
MAX_MESSAGE_TERMS = 200
"""Terms of a message that are looked up."""
NOT_NAMES = frozenset({"user", "assistant", "agent", "i", "me", "you", "it", "yes", "no"})
"""Words that are not names, although almost every fact mentions them."""


def is_name(terms: Sequence[str]) -> bool:
    """Return whether these terms are a name."""
    return 1 <= len(terms) <= MAX_NAME_TERMS and not NOT_NAMES.issuperset(terms)


def entity_ids(text: str) -> list[UUID]:
    """Return the ids of all entities that this text could mention."""
    terms = query_terms(text)[:MAX_MESSAGE_TERMS]
    runs = {
        tuple(terms[at : at + length])
        for at in range(len(terms))
        for length in range(1, min(MAX_NAME_TERMS, len(terms) - at) + 1)
    }
    return [entity_id(run) for run in sorted(runs) if is_name(run)]


def entity_id(terms: Iterable[str]) -> UUID:
    """Return the id of the entity with this name."""
    return document_id("entity", *terms)
