"""The entities that facts mention, as documents: pure.

They contain only a name; facts link to them, so erasing the facts leaves no information.
"""

from collections.abc import Iterable
from datetime import datetime

from choir_memory.documents.entity_names import entity_id, is_name
from choir_memory.knowledge.derived_store import DerivedDocument
from choir_memory.text.tokens import query_terms


def entities_of(names: Iterable[str], at: datetime, trust: int) -> list[DerivedDocument]:
    """Return the entities for these names; strings that are not names are skipped."""
    nodes = {}
    for name in names:
        terms = query_terms(name)
        if is_name(terms):
            node = entity_id(terms)
            nodes[node] = DerivedDocument(
                document_id=node,
                kind="entity",
                text=" ".join(name.split()),
                origin="derived",
                trust=trust,
                happened_at=at,
            )
    return list(nodes.values())
