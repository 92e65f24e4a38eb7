"""Verification of stored logs: the chain, the signatures of its events, and the anchors."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.eventlog.chain import (
    HASH_BYTES,
    LogHead,
    count_hashes,
    find_break,
    head_of,
    verify_hashes,
)
from choir_common.eventlog.signature import (
    KEY_ID_BYTES,
    SIGNATURE_BYTES,
    AuditKeyring,
    SignatureState,
)
from choir_common.i18n import _, join
from choir_common.wire.operator import LogVerification
from choir_control.log.audit.anchor import CheckedAnchor, check_anchors
from choir_control.log.audit.anchor_store import AnchorStore
from choir_control.log.eventlog.store import ErasedLog, EventStore

PAGE = 500


@dataclass(frozen=True, slots=True)
class LogFault:
    """The first revision that does not match, and the reason."""

    rev: int
    reason: str


@dataclass(slots=True)
class SignatureWalk:
    """The check of one log's signatures and anchored heads, event by event.

    A valid signature proves its event and, through the chain, all events before it.
    """

    session_id: str
    keyring: AuditKeyring
    anchored: Mapping[int, tuple[CheckedAnchor, str]]
    """Anchors of this log by the revision they contain, with its hash."""
    last_rev: int = 0
    proven_rev: int = 0
    signed_from: int | None = None
    unknown_keys: set[str] = field(default_factory=set)

    def check(self, rev: int, event_hash: str, signature: bytes | None) -> LogFault | None:
        """Check the next event; return what is wrong with it, or None."""
        self.last_rev = rev
        state = self.keyring.check_event(signature, self.session_id, rev, event_hash)
        if state is SignatureState.WRONG:
            return LogFault(
                rev, _("its signature does not match: it was changed after Choir signed it")
            )
        if state is SignatureState.UNKNOWN_KEY and signature is not None:
            self.unknown_keys.add(signature[:KEY_ID_BYTES].hex())
        if state is SignatureState.VALID:
            self.proven_rev = rev
            self.signed_from = self.signed_from or rev
        checked, anchored_hash = self.anchored.get(rev, (None, ""))
        if checked is None:
            return None
        name = _("anchor {number} of {at:%Y-%m-%d}").format(
            number=checked.anchor.number, at=checked.anchor.at
        )
        if checked.fault:
            return LogFault(
                rev, _("{name} cannot be trusted: {fault}").format(name=name, fault=checked.fault)
            )
        if anchored_hash != event_hash:
            first = self.proven_rev + 1
            return LogFault(
                first,
                _(
                    "{name} has another hash for event {rev}; events {first} to {rev} may be changed"
                ).format(name=name, rev=rev, first=first),
            )
        if checked.is_signed:
            self.proven_rev = rev
        return None

    def finish(self, head: LogHead) -> LogFault | None:
        """Return what is wrong with the end of the log, or None."""
        later = [rev for rev in self.anchored if rev > self.last_rev]
        if later:
            checked, _hash = self.anchored[max(later)]
            return LogFault(
                self.last_rev + 1,
                _("anchor {number} has event {later}, the log has not").format(
                    number=checked.anchor.number, later=max(later)
                ),
            )
        if self.proven_rev >= head.rev:
            return None
        reason = _("it and the events after it have no signature of a key of this installation")
        if self.unknown_keys:
            keys = ", ".join(sorted(self.unknown_keys))
            reason += _("; key {keys} is missing in audit-keys.json").format(keys=keys)
        return LogFault(self.proven_rev + 1, reason)


class LogVerifier:
    """Verifier of whole logs against their heads, signatures and anchors."""

    def __init__(self, events: EventStore, anchors: AnchorStore, keyring: AuditKeyring) -> None:
        self._events = events
        self._anchors = anchors
        self._keyring = keyring

    async def check_anchors(self) -> Mapping[int, CheckedAnchor]:
        """Return all anchors by number, checked."""
        return check_anchors(await self._anchors.list_all(), self._keyring)

    async def verify(
        self,
        session_id: str,
        head: LogHead,
        anchors: Mapping[int, CheckedAnchor] | None = None,
    ) -> LogVerification:
        """Recompute a session's log and compare it with its head, its signatures and its anchors.

        An erased log still has its hashes and signatures. `anchors`: the checked anchors, if they are known.
        """
        checked = await self.check_anchors() if anchors is None else anchors
        anchored = {
            anchor_head.rev: (anchor, anchor_head.hash)
            for anchor in checked.values()
            for anchor_head in anchor.anchor.heads
            if anchor_head.session_id == session_id
        }
        walk = SignatureWalk(session_id, self._keyring, anchored)
        erased_log = await self._events.find_erased(session_id)
        if erased_log is not None:
            count, fault = count_hashes(erased_log.hashes), _walk_erased(walk, head, erased_log)
        else:
            count, fault = await self._walk_events(walk, head)
        fault = fault or walk.finish(head)
        return LogVerification(
            session_id=session_id,
            ok=fault is None,
            events=count,
            head_rev=head.rev,
            broken_at=fault.rev if fault else None,
            reason=_describe(fault, is_erased=erased_log is not None) if fault else None,
            erased_at=erased_log.erased_at if erased_log else None,
            erased_payloads=count if erased_log else 0,
            signed_from=walk.signed_from,
            anchors=len(anchored),
            unknown_keys=tuple(sorted(walk.unknown_keys)),
        )

    async def _walk_events(self, walk: SignatureWalk, head: LogHead) -> tuple[int, LogFault | None]:
        """Return the number of intact events, and the first fault."""
        at, count, size = LogHead(), 0, PAGE
        while True:
            try:
                page = await self._events.read_signed(walk.session_id, at.rev, size)
            except ValueError:
                if size == 1:
                    return count, LogFault(at.rev + 1, _("it is not a valid event any more"))
                size = 1  # one event of the page is damaged: find it
                continue
            for event, signature in page:
                chain_break = find_break([event], at)
                if chain_break:
                    return count, LogFault(chain_break.rev, chain_break.reason)
                fault = walk.check(event.rev, event.hash, signature)
                if fault:
                    return count, fault
                at, count = head_of(event), count + 1
            if len(page) < size:
                return count, _compare_end(at, head)


def _compare_end(at: LogHead, head: LogHead) -> LogFault | None:
    if at.rev < head.rev:
        return LogFault(at.rev + 1, _("the log ends before {rev}").format(rev=head.rev))
    if at.rev == head.rev and at != head:
        return LogFault(at.rev, _("its hash differs from the session's head"))
    return None


def _walk_erased(walk: SignatureWalk, head: LogHead, erased_log: ErasedLog) -> LogFault | None:
    count, reason = count_hashes(erased_log.hashes), verify_hashes(erased_log.hashes, head)
    if reason:
        return LogFault(count or 1, reason)
    for rev in range(1, count + 1):
        event_hash = erased_log.hashes[HASH_BYTES * (rev - 1) : HASH_BYTES * rev].hex()
        signature = erased_log.signatures[SIGNATURE_BYTES * (rev - 1) : SIGNATURE_BYTES * rev]
        fault = walk.check(rev, event_hash, signature or None)
        if fault:
            return fault
    return None


def _describe(fault: LogFault, *, is_erased: bool) -> str:
    words = _("Event {rev}: {reason}.").format(rev=fault.rev, reason=fault.reason)
    return join(" ", (_("The log is erased."), words)) if is_erased else words
