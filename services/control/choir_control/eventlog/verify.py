"""Verification of a stored log from its first event to its head. Called by the operator API."""

from choir_common.eventlog.chain import Head, first_break, head_of
from choir_common.eventlog.erased import count_hashes, find_fault
from choir_common.wire.operator import Verification
from choir_control.eventlog.store import ErasedLog, EventStore

PAGE = 500


async def verify(store: EventStore, session_id: str, head: Head) -> Verification:
    """Recompute every hash of a session's log and compare the result with the session's head.

    An erased log still has its hashes: their number and the last one are compared.
    """
    erased = await store.erased(session_id)
    if erased is not None:
        return _verify_erased(session_id, head, erased)
    at, count, size = Head(), 0, PAGE
    while True:
        try:
            page = await store.read(session_id, at.rev, size)
        except ValueError:
            if size == 1:
                reason = "it no longer has an event's shape"
                return _broken(session_id, head, count, at.rev + 1, reason)
            size = 1  # one event of the page is damaged: find it
            continue
        broken = first_break(page, at)
        if broken:
            return _broken(session_id, head, count, broken.rev, broken.reason)
        count += len(page)
        at = head_of(page[-1]) if page else at
        if len(page) < size:
            break
    if at.rev < head.rev:
        return _broken(session_id, head, count, at.rev + 1, f"the log ends before {head.rev}")
    if at.rev == head.rev and at != head:
        return _broken(session_id, head, count, at.rev, "it is not what the session's head says")
    return Verification(session_id=session_id, ok=True, events=count, head_rev=head.rev)


def _verify_erased(session_id: str, head: Head, erased: ErasedLog) -> Verification:
    count, fault = count_hashes(erased.hashes), find_fault(erased.hashes, head)
    return Verification(
        session_id=session_id,
        ok=not fault,
        events=count,
        head_rev=head.rev,
        broken_at=count or 1 if fault else None,
        reason=f"The log is erased, and {fault}." if fault else None,
        erased_at=erased.erased_at,
    )


def _broken(session_id: str, head: Head, count: int, rev: int, reason: str) -> Verification:
    return Verification(
        session_id=session_id,
        ok=False,
        events=count,
        head_rev=head.rev,
        broken_at=rev,
        reason=f"Event {rev}: {reason}.",
    )
