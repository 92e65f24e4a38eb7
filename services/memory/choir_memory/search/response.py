"""Build the wire models of a search result, the hits and the receipt: pure."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue

from choir_common.wire.memory_search import Arm, ArmScore, MemoryHit, MemoryQuery, Neighbour
from choir_common.wire.model import JsonObject
from choir_memory.search.candidates import ArmResult
from choir_memory.search.document_store import StoredDocument
from choir_memory.search.fusion import RankedDocument
from choir_memory.search.hit_selection import SelectedHit
from choir_memory.search.query import used_filters
from choir_memory.search.query_timer import QueryTimer

SCORE_DIGITS = 6


def build_hit(selected: SelectedHit, fused: RankedDocument, times: int = 1) -> MemoryHit:
    """Return a hit for the response; `times` is the number of documents with the same text."""
    stored = selected.stored
    return MemoryHit(
        document_id=str(stored.document_id),
        key=stored.key,
        text=selected.text,
        score=round(fused.score, SCORE_DIGITS),
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
        before=tuple(_beside(hit) for hit in selected.before),
        after=tuple(_beside(hit) for hit in selected.after),
        truncated=selected.text != stored.text,
        times=times,
    )


def build_receipt(
    query: MemoryQuery,
    stages: QueryTimer,
    lists: Mapping[Arm, Sequence[ArmResult]],
    fused: Mapping[UUID, RankedDocument],
    selected: Sequence[SelectedHit],
    degraded: str | None,
) -> JsonObject:
    """Return the record of a search, without any text and without the query."""
    hits: list[JsonValue] = [_trace(fused[hit.stored.document_id]) for hit in selected]
    filters: list[JsonValue] = [*used_filters(query)]
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


def _trace(fused: RankedDocument) -> JsonObject:
    return {
        "id": str(fused.document_id),
        "score": round(fused.score, SCORE_DIGITS),
        "arms": {hit.arm: [hit.rank, hit.score, hit.part] for hit in _thoughts(fused)},
    }


def _thoughts(fused: RankedDocument) -> tuple[ArmScore, ...]:
    return tuple(
        ArmScore(
            arm=arm,
            rank=hit.rank,
            score=round(hit.score, SCORE_DIGITS),
            part=round(hit.part, SCORE_DIGITS),
        )
        for arm, hit in sorted(fused.arms.items())
    )


def _beside(stored: StoredDocument) -> Neighbour:
    return Neighbour(
        document_id=str(stored.document_id),
        position=stored.position or 0,
        text=stored.text,
        speaker=stored.speaker,
        happened_at=stored.happened_at,
        origin=stored.origin,
    )
