"""Hits of several stores become one list."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

from choir_common.wire.memory_search import MemoryHit, MemoryHits
from choirctl.commands.memory_search import merge_hits

NOW = datetime(2026, 11, 30, tzinfo=UTC)


def hit(text: str, relevance: float, score: float = 1.0) -> MemoryHit:
    return MemoryHit.model_construct(
        document_id=str(uuid4()), key=None, text=text, score=score, relevance=relevance,
        created_at=NOW, updated_at=NOW, arms=(), kind="turn", trust=50,
    )  # fmt: skip


def hits(*found: MemoryHit, receipt: UUID, degraded: str | None = None) -> MemoryHits:
    return MemoryHits(
        hits=(), arms_used=("text",), receipt_id=str(receipt), degraded=degraded
    ).model_copy(update={"hits": found})


def test_they_are_ranked_by_what_can_be_compared_and_each_text_stands_once() -> None:
    knowledge, sessions = uuid4(), uuid4()
    merged = merge_hits(
        [
            hits(hit("a summary", 0.2), hit("a dinner", 0.1), receipt=knowledge),
            hits(hit("a dinner", 0.9, 0.3), hit("a walk", 0.0), receipt=sessions, degraded="slow"),
        ],
        limit=2,
    )
    assert [(it.text, it.relevance) for it in merged.hits] == [
        ("a dinner", 0.9),
        ("a summary", 0.2),
    ]
    assert (merged.receipt_id, merged.degraded) == (str(sessions), "slow")


def test_without_hits_the_answer_is_that_of_the_first_store() -> None:
    first, second = uuid4(), uuid4()
    assert merge_hits([hits(receipt=first), hits(receipt=second)], 5).receipt_id == str(first)
