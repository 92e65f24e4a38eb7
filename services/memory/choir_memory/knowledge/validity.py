"""Status and validity of a write, and the documents that it supersedes.

A document that is no longer true is closed and linked to its successor, not deleted: searches leave it out
unless its status is requested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from choir_common.errors import InvalidRequest, NotFound
from choir_common.wire.memory_search import MemoryUpsert, MemoryWritten
from choir_memory.knowledge.store import KnowledgeStore, StoredValidity, Validity


@dataclass(frozen=True, slots=True)
class WriteResult:
    """Result of a write, and the documents it changed, including those deleted because they were derived."""

    answer: MemoryWritten
    changed_ids: Sequence[UUID]
    superseded_ids: Sequence[UUID] = ()


def sets_validity(write: MemoryUpsert) -> bool:
    """Return whether a write names a status, a validity or documents that it supersedes."""
    return bool(write.status or write.valid_from or write.valid_to or write.supersedes)


def requested_validity(write: MemoryUpsert) -> Validity:
    """Return what a write sets; a new text, or one that replaces others, is active by default."""
    is_current = write.text is not None or bool(write.supersedes)
    status = write.status or ("active" if is_current else None)
    return Validity(status, write.valid_from, write.valid_to)


def validate_validity(write: MemoryUpsert) -> None:
    """Validate the fields about status and validity; raises InvalidRequest."""
    if write.operation == "delete" and sets_validity(write):
        raise InvalidRequest("delete takes no status, no validity and no supersedes.")
    if write.supersedes and write.status not in (None, "active"):
        raise InvalidRequest(
            f"Only an active document can supersede others: omit the status {write.status}."
        )
    check_order(StoredValidity(0, write.valid_from, write.valid_to))


def check_order(validity: StoredValidity) -> StoredValidity:
    """Return the validity; raises InvalidRequest if it ends before it starts."""
    start, end = validity.valid_from, validity.valid_to
    if start is not None and end is not None and start >= end:
        raise InvalidRequest(
            f"The validity would end ({end.isoformat()}) before it starts ({start.isoformat()}): "
            "correct valid_from or valid_to."
        )
    return validity


async def supersede(store: KnowledgeStore, write: MemoryUpsert, result: WriteResult) -> WriteResult:
    """Close the documents that this write supersedes; raises NotFound naming one that does not exist."""
    if not write.supersedes:
        return result
    document_id = result.changed_ids[0]
    old_by_name = await store.lock_named(write.supersedes)
    for name in write.supersedes:
        if name not in old_by_name:
            raise NotFound(f"There is no document {name} in knowledge to supersede.")
        if old_by_name[name] == document_id:
            raise InvalidRequest(f"The document {name} cannot supersede itself.")
    old_ids = await store.supersede(
        document_id, list(dict.fromkeys(old_by_name.values())), write.valid_from
    )
    if not old_ids:
        return result
    is_new_link = result.answer.operation == "unchanged"
    answer = result.answer.model_copy(
        update={
            "superseded": tuple(map(str, old_ids)),
            **({"operation": "updated", "embedded": "queued"} if is_new_link else {}),
        }
    )
    return replace(result, answer=answer, superseded_ids=old_ids)
