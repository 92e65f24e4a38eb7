"""Build the wire models of a search result, the hits and the receipt: pure."""

from collections.abc import Mapping, Sequence
from uuid import UUID

from pydantic import JsonValue, TypeAdapter

from choir_common.wire.memory_search import Arm, MemoryHit, MemoryQuery, Neighbour
from choir_common.wire.model import DEFERRED, JsonObject
from choir_memory.search.candidates import ArmResult
from choir_memory.search.document_store import StoredDocument
from choir_memory.search.fusion import RankedDocument
from choir_memory.search.hit_selection import SelectedHit
from choir_memory.search.query import QueryTimer, used_filters

SCORE_DIGITS = 6


_HITS = TypeAdapter(tuple[MemoryHit, ...], config=DEFERRED)


def build_hits(
    selected_hits: Sequence[SelectedHit],
    ranking: Sequence[RankedDocument],
    times: Mapping[UUID, int],
) -> tuple[MemoryHit, ...]:
    """Return the hits for the response; `times` is the number of documents with the same text, by hit."""
    by_id = {ranked_document.document_id: ranked_document for ranked_document in ranking}
    fields = [
        _hit_fields(hit, by_id[hit.document.document_id], times.get(hit.document.document_id, 1))
        for hit in selected_hits
    ]
    # at once, from dicts: a call for each of sixty models takes twice as long. Strict models take no dicts.
    return _HITS.validate_python(fields, strict=False)


def _hit_fields(
    selected_hit: SelectedHit, ranked_document: RankedDocument, times: int
) -> dict[str, object]:
    document = selected_hit.document
    return {
        "document_id": str(document.document_id),
        "key": document.key,
        "text": selected_hit.text,
        "score": round(ranked_document.score, SCORE_DIGITS),
        "relevance": round(ranked_document.relevance, SCORE_DIGITS),
        "arms": [
            {
                "arm": arm,
                "rank": hit.rank,
                "score": round(hit.score, SCORE_DIGITS),
                "part": round(hit.part, SCORE_DIGITS),
            }
            for arm, hit in sorted(ranked_document.arms.items())
        ],
        "created_at": document.created_at,
        "updated_at": document.updated_at,
        "metadata": document.metadata,
        "kind": document.kind,
        "tier": document.tier,
        "status": document.status,
        "session_id": document.session_id,
        "position": document.position,
        "speaker": document.speaker,
        "happened_at": document.happened_at,
        "origin": document.origin,
        "trust": document.trust,
        "version": document.version,
        "before": [_neighbour(hit) for hit in selected_hit.before],
        "after": [_neighbour(hit) for hit in selected_hit.after],
        "truncated": selected_hit.text != document.text,
        "times": times,
        "valid_from": document.valid_from,
        "valid_to": document.valid_to,
        "grain": document.grain,
        "period": document.period,
        "superseded_by": [str(superseding) for superseding in document.superseded_by],
    }


def build_receipt(
    query: MemoryQuery,
    stages: QueryTimer,
    lists: Mapping[Arm, Sequence[ArmResult]],
    hits: Sequence[MemoryHit],
    degraded: str | None,
    *,
    misspelt: int,
    added: int,
) -> JsonObject:
    """Return the record of a search, without any text and without the query.

    `misspelt` words of the query were replaced by similar ones; a model added `added` terms.
    """
    traces: list[JsonValue] = [_trace(hit) for hit in hits]
    filters: list[JsonValue] = [*used_filters(query)]
    cut: list[JsonValue] = [*stages.cut]
    return {
        "store": query.store,
        "mode": query.mode,
        "filters": filters,
        "arms": {arm: {"found": len(scored)} for arm, scored in sorted(lists.items())},
        "misspelt": misspelt,
        "added": added,
        "degraded": degraded,
        "cut": cut,
        "took_ms": {**stages.took_ms, "total": stages.total_ms()},
        "hits": traces,
    }


def _trace(hit: MemoryHit) -> JsonObject:
    return {
        "id": hit.document_id,
        "score": hit.score,
        "arms": {result.arm: [result.rank, result.score, result.part] for result in hit.arms},
    }


def _neighbour(document: StoredDocument) -> Neighbour:
    return Neighbour(
        document_id=str(document.document_id),
        position=document.position or 0,
        text=document.text,
        speaker=document.speaker,
        happened_at=document.happened_at,
        origin=document.origin,
    )
