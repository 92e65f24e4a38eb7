"""The words for what a memory is, and how far its origin is to be trusted. Used by every room."""

from collections.abc import Iterable, Mapping
from typing import Literal

from choir_common.wire.memory_sessions import Origin, UnitKind

Tier = Literal["mid_term", "long_term_summary", "long_term_detail", "grain_summary"]
Grain = Literal["day", "week", "month", "quarter", "year"]
KnowledgeKind = Literal["note", "fact", "rule", "episode", "error", "entity", "document_chunk"]
LinkKind = Literal["evidence", "supersedes", "mentions", "rolls_up"]

__all__ = ["Grain", "KnowledgeKind", "LinkKind", "Origin", "Tier", "UnitKind"]

TRUST: Mapping[Origin, int] = {
    "web": 10,
    "tool": 30,
    "agent": 50,
    "user": 70,
    "operator": 90,
    # without knowing what it was derived from; who knows takes `least_trust` of that
    "derived": 30,
}
"""From 0, believe nothing, to 100."""


def least_trust(sources: Iterable[int]) -> int:
    """Return how far something made from these may be trusted: no further than the least of them."""
    return min(sources, default=TRUST["derived"])
