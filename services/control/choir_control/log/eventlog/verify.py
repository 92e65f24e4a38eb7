"""Verification of a stored log from its first event to its head."""

from choir_common.eventlog.chain import LogHead, count_hashes, find_break, head_of, verify_hashes
from choir_common.wire.operator import LogVerification
from choir_control.log.eventlog.store import ErasedLog, EventStore

PAGE = 500


async def verify_log(store: EventStore, session_id: str, head: LogHead) -> LogVerification:
    """Recompute every hash of a session's log and compare the result with the session's head.

    An erased log still has its hashes: their number and the last one are compared.
    """
    erased_log = await store.find_erased(session_id)
    if erased_log is not None:
        return _verify_erased(session_id, head, erased_log)
    at, count, size = LogHead(), 0, PAGE
    while True:
        try:
            page = await store.read(session_id, at.rev, size)
        except ValueError:
            if size == 1:
                reason = "it is not a valid event any more"
                return _broken(session_id, head, count, at.rev + 1, reason)
            size = 1  # one event of the page is damaged: find it
            continue
        chain_break = find_break(page, at)
        if chain_break:
            return _broken(session_id, head, count, chain_break.rev, chain_break.reason)
        count += len(page)
        at = head_of(page[-1]) if page else at
        if len(page) < size:
            break
    if at.rev < head.rev:
        return _broken(session_id, head, count, at.rev + 1, f"the log ends before {head.rev}")
    if at.rev == head.rev and at != head:
        return _broken(session_id, head, count, at.rev, "its hash differs from the session's head")
    return LogVerification(session_id=session_id, ok=True, events=count, head_rev=head.rev)


def _verify_erased(session_id: str, head: LogHead, erased_log: ErasedLog) -> LogVerification:
    count, fault = count_hashes(erased_log.hashes), verify_hashes(erased_log.hashes, head)
    return LogVerification(
        session_id=session_id,
        ok=not fault,
        events=count,
        head_rev=head.rev,
        broken_at=count or 1 if fault else None,
        reason=f"The log is erased, and {fault}." if fault else None,
        erased_at=erased_log.erased_at,
    )


def _broken(session_id: str, head: LogHead, count: int, rev: int, reason: str) -> LogVerification:
    return LogVerification(
        session_id=session_id,
        ok=False,
        events=count,
        head_rev=head.rev,
        broken_at=rev,
        reason=f"Event {rev}: {reason}.",
    )
