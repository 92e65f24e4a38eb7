"""Literals for tiers, kinds, grains and links, and the trust of each origin. Used by all packages."""

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
    # only for unknown sources; where they are known, `least_trust` of them applies
    "derived": 30,
}
"""Trust of each origin, from 0 (none) to 100 (full)."""


def least_trust(sources: Iterable[int]) -> int:
    """Return the trust of a document derived from these sources: the lowest of theirs."""
    return min(sources, default=TRUST["derived"])
