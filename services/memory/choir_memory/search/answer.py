"""Build the wire models of a search result: the hits and the receipt. Pure; called by `recall`."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue

from choir_common.wire.json import JsonObject
from choir_common.wire.memories import Arm, ArmScore, Beside, MemoryHit, MemoryQuery
from choir_memory.search.fuse import Fused
from choir_memory.search.pack import Shown
from choir_memory.search.question import filters_of
from choir_memory.search.read_store import Stored
from choir_memory.search.scored import Scored
from choir_memory.search.stages import Stages

DIGITS = 6


def hit_of(shown: Shown, fused: Fused, times: int = 1) -> MemoryHit:
    """Return a hit for the response; `times` is the number of documents with the same text."""
    stored = shown.stored
    return MemoryHit(
        document_id=str(stored.document_id),
        key=stored.key,
        text=shown.text,
        score=round(fused.score, DIGITS),
        arms=_thoughts(fused),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        metadata=stored.metadata,
        kind=stored.kind,
        tier=stored.tier,
        status=stored.status,
        session_id=stored.session_id,
        position=stored.position,
        speaker=stored.speaker,
        happened_at=stored.happened_at,
        origin=stored.origin,
        trust=stored.trust,
        version=stored.version,
        before=tuple(_beside(one) for one in shown.before),
        after=tuple(_beside(one) for one in shown.after),
        truncated=shown.text != stored.text,
        times=times,
    )


def receipt_of(
    query: MemoryQuery,
    stages: Stages,
    lists: Mapping[Arm, Sequence[Scored]],
    fused: Mapping[UUID, Fused],
    shown: Sequence[Shown],
    degraded: str | None,
) -> JsonObject:
    """Return the record of a search, without any text and without the query."""
    hits: list[JsonValue] = [_trace(fused[one.stored.document_id]) for one in shown]
    filters: list[JsonValue] = [*filters_of(query)]
    cut: list[JsonValue] = [*stages.cut]
    return {
        "store": query.store,
        "mode": query.mode,
        "filters": filters,
        "arms": {arm: {"found": len(scored)} for arm, scored in sorted(lists.items())},
        "degraded": degraded,
        "cut": cut,
        "took_ms": {**stages.took_ms, "total": stages.total_ms()},
        "hits": hits,
    }


def _trace(fused: Fused) -> JsonObject:
    return {
        "id": str(fused.document_id),
        "score": round(fused.score, DIGITS),
        "arms": {one.arm: [one.rank, one.score, one.part] for one in _thoughts(fused)},
    }


def _thoughts(fused: Fused) -> tuple[ArmScore, ...]:
    return tuple(
        ArmScore(
            arm=arm,
            rank=one.rank,
            score=round(one.score, DIGITS),
            part=round(one.part, DIGITS),
        )
        for arm, one in sorted(fused.arms.items())
    )


def _beside(stored: Stored) -> Beside:
    return Beside(
        document_id=str(stored.document_id),
        position=stored.position or 0,
        text=stored.text,
        speaker=stored.speaker,
        happened_at=stored.happened_at,
        origin=stored.origin,
    )
