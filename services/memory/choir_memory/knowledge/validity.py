"""Status and validity of a write, and the documents that it supersedes.

A document that is no longer true is closed and linked to its successor, not deleted: searches leave it out
unless its status is requested.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from choir_common.errors import Forbidden, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.wire.memory_search import MemoryUpsert, MemoryWritten
from choir_memory.documents.model import TRUST, is_readable
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
        raise InvalidRequest(_("delete takes no status, no validity and no supersedes."))
    if write.supersedes and write.status not in (None, "active"):
        raise InvalidRequest(
            _("Only an active document can supersede others: omit the status {status}.").format(
                status=write.status
            )
        )
    start, end = write.valid_from, write.valid_to
    if start is not None and end is not None and start >= end:
        raise _invalid_order(start, end)


def check_order(validity: StoredValidity) -> StoredValidity:
    """Return the validity; raises InvalidRequest if it ends before it starts.

    A document that was superseded before it started ends at its start.
    """
    start, end = validity.valid_from, validity.valid_to
    if start is not None and end is not None and start > end:
        raise _invalid_order(start, end)
    return validity


def _invalid_order(start: datetime, end: datetime) -> InvalidRequest:
    return InvalidRequest(
        _(
            "The validity must end after it starts: it would start at {start} and end at {end} (a "
            "date as the end includes that day)."
        ).format(start=start.isoformat(), end=end.isoformat())
    )


def check_trust(write: MemoryUpsert, name: str, trust: int, *, rewritten: bool = False) -> None:
    """Raise Forbidden if text from outside could make the agent change a document with more trust.

    The agent may replace the text of its own note (`rewritten`): the note then has the low trust.
    """
    if not write.outside or trust <= TRUST["web"] or (rewritten and trust <= TRUST["agent"]):
        return
    raise Forbidden(
        _(
            "The document {name} has trust {trust}. In a turn or job that has read untrusted text "
            "from outside (trust {least}), a document with more trust can be neither deleted nor "
            "ended nor superseded, and what a user or operator said cannot be replaced. Nothing was "
            "changed: store what is new as a document of its own, and ask the user."
        ).format(name=name, trust=trust, least=TRUST["web"])
    )


def is_rewrite(write: MemoryUpsert) -> bool:
    """Return whether a write replaces a text without ending or hiding the document."""
    limits = (write.valid_from, write.valid_to)
    return write.text is not None and write.status in (None, "active") and not any(limits)


async def supersede(store: KnowledgeStore, write: MemoryUpsert, result: WriteResult) -> WriteResult:
    """Close the documents that this write supersedes.

    Raises NotFound for a document that does not exist, and Forbidden by `check_trust`.
    """
    if not write.supersedes:
        return result
    document_id = result.changed_ids[0]
    old_by_name = await store.lock_named(write.supersedes)
    for name in write.supersedes:
        old = old_by_name.get(name)
        if old is None or not is_readable(write.reader, old.conversations):
            raise NotFound(
                _("There is no document {name} in knowledge to supersede.").format(name=name)
            )
        if old.document_id == document_id:
            raise InvalidRequest(
                _("The document {name} cannot supersede itself.").format(name=name)
            )
        check_trust(write, name, old.trust)
    ids = dict.fromkeys(old.document_id for old in old_by_name.values())
    old_ids = await store.supersede(document_id, list(ids), write.valid_from)
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
