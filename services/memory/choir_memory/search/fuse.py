"""Weigh what the arms found into one order. Pure; called by `recall`.

Both arms give scores that mean the same for every query, so that no score has to be stretched to the
best of its list: full text says which share of the query's information a document holds, vectors give
the cosine. Their plain mean won over rank fusion and over other weights on public conversations, and
leans by itself to the vector when the query's words are not in the corpus.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from choir_common.wire.memories import Arm
from choir_memory.search.scored import Scored

WEIGHTS: Mapping[Arm, float] = {"vector": 0.5, "text": 0.5}


@dataclass(frozen=True, slots=True)
class Fused:
    """A document, its final score from 0 to about 1, and what each arm thought of it."""

    document_id: UUID
    score: float
    arms: Mapping[Arm, Scored]


def fuse(lists: Mapping[Arm, Sequence[Scored]], limit: int) -> list[Fused]:
    """Return the best `limit` documents of all lists, best first; one list alone keeps its scores."""
    total = sum(WEIGHTS[arm] for arm in lists)
    thoughts: dict[UUID, dict[Arm, Scored]] = {}
    for arm, scored in lists.items():
        for one in scored:
            thoughts.setdefault(one.document_id, {})[arm] = one
    fused = [
        Fused(
            document_id,
            sum(WEIGHTS[arm] * max(one.score, 0.0) for arm, one in arms.items()) / total,
            arms,
        )
        for document_id, arms in thoughts.items()
    ]
    fused.sort(key=lambda one: (-one.score, one.document_id))
    return [one for one in fused if one.score > 0][:limit]
