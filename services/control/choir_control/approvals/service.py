"""Decisions on approval requests, each made once: by an operator, by a button, or by expiry.

The session's signal, the text for the conversation and the order to apply the proposal are stored
together with the decision. See docs/design/approvals.md.
"""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog

from choir_common.clock import Clock
from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.grants import call_subject, check_scope
from choir_common.i18n import Message, _
from choir_common.ids import new_id
from choir_common.wire.grants import DEFAULT_GRANT_DAYS, GrantScope
from choir_control.approvals.grant_store import NewGrant
from choir_control.approvals.nonce import ButtonNonce
from choir_control.approvals.server_questions import (
    NO_ANSWER,
    REQUEST_TYPE,
    Answer,
    read_values,
)
from choir_control.approvals.store import (
    Approval,
    ApprovalStore,
    Outcome,
    PressedButton,
)
from choir_control.approvals.texts import (
    DECIDED_BY_END,
    DECIDED_BY_TIMEOUT,
    format_decision,
    format_grant,
    format_page,
    summary_text,
)
from choir_control.configuration.current import ConfigService
from choir_control.log.signals.locks import SignalLocks
from choir_control.log.signals.notifier import Notifier, OutboxRescanner

log = structlog.get_logger("choir.approvals")

MAX_ID = 100
EXPIRY_INTERVAL_S = 5.0
# A longer interval means that this process was suspended, and then nobody could decide either.
MAX_INTERVAL_S = 3 * EXPIRY_INTERVAL_S


@dataclass(frozen=True, slots=True)
class GrantChoice:
    """Which later calls an approval covers."""

    scope: GrantScope = "once"
    days: int | None = None
    """Lifetime of the scope `always`."""


ONCE = GrantChoice()


class ProposalRunner(Protocol):
    """Applies approved proposals in the background."""

    def wake(self) -> None:
        """Check for approved proposals now."""
        ...


class ApprovalService:
    """Lookup and decision of approval requests."""

    def __init__(
        self,
        store: ApprovalStore,
        *,
        signal_locks: SignalLocks,
        notifier: Notifier,
        outbox: OutboxRescanner,
        proposals: ProposalRunner,
    ) -> None:
        """`signal_locks` are by DM: signals must become visible in the order of their ids."""
        self._store = store
        self._signal_locks = signal_locks
        self._notifier = notifier
        self._outbox = outbox
        self._proposals = proposals

    async def find(self, approval_id: str) -> Approval:
        """Return a request; raises NotFound."""
        plausible = 0 < len(approval_id) <= MAX_ID and approval_id.isprintable()
        approval = await self._store.get(approval_id) if plausible else None
        if approval is None:
            raise NotFound(no_request_text(approval_id))
        return approval

    async def decide(
        self,
        approval_id: str,
        outcome: Outcome,
        by: str,
        digest: str | None = None,
        *,
        button: PressedButton | None = None,
        scope: GrantChoice = ONCE,
        answer: Answer = NO_ANSWER,
    ) -> Approval:
        """Approve, reject or expire a request and return its new state.

        `by` is stored as the decider. `digest` is the one that the decider saw, if known; `button`
        is the pressed one, if there was one. An approval covers later calls according to `scope`.
        `answer` is for the question of an MCP server. Raises NotFound, InvalidRequest for a scope that was
        not offered or an answer that does not fit, or Conflict if the request was decided before or its
        content differs from `digest`.
        """
        approval = await self.find(approval_id)
        if digest is not None and digest != approval.digest:
            raise Conflict(
                _("{id} differs from what you were shown; look at it again.").format(id=approval_id)
            )
        values, grant = None, None
        if outcome == "approved":
            values = read_values(approval.request_type, approval.payload, answer)
            grant = _make_grant(approval, scope)
        elif answer.is_dismissed:
            outcome = _dismissed(approval)
        text = self._store.translate(approval.dm, _describe_decision(approval, outcome, by, grant))
        async with self._signal_locks.of(approval.home_dm or approval.dm):
            is_first = await self._store.decide(
                approval_id, outcome, by, text, button, grant, values
            )
        decided = await self.find(approval_id)
        if not is_first:
            raise Conflict(_describe_earlier_decision(decided))
        self._notifier.notify(decided.session_id)
        self._outbox.rescan(decided.dm)
        _log_decision(decided, outcome, by, grant)
        if outcome == "approved":
            self._proposals.wake()
        return decided

    async def show_page(self, approval: Approval, page: int, nonce: ButtonNonce) -> bool:
        """Show a page in place of the notice; return False if another page comes next."""
        if not 1 <= page <= min(approval.pages, approval.pages_shown + 1):
            return False
        text: str = await asyncio.to_thread(
            format_page,
            approval.agent_id,
            approval.approval_id,
            approval.request_type,
            approval.payload,
            approval.basis,
            page,
        )
        text = self._store.translate(approval.dm, text)
        await self._store.show_page(approval, page, text, nonce)
        self._outbox.rescan(approval.dm)
        return True


def _log_decision(approval: Approval, outcome: Outcome, by: str, grant: NewGrant | None) -> None:
    log.info(
        "decided",
        approval_id=approval.approval_id,
        outcome=outcome,
        by=by,
        agent=approval.agent_id,
        session=approval.session_id,
        request_type=approval.request_type,
        digest=approval.digest,
        grant_id=grant.grant_id if grant else None,
    )


def _dismissed(approval: Approval) -> Outcome:
    """Return the outcome of a request that a person closes without an answer; raises InvalidRequest."""
    if approval.request_type != REQUEST_TYPE:
        raise InvalidRequest(
            _("Only the question of an MCP server can be dismissed; reject this one.")
        )
    return "expired"


def _make_grant(approval: Approval, choice: GrantChoice) -> NewGrant | None:
    """Return the grant of an approval, or None for one call; raises InvalidRequest."""
    check_scope(choice.scope, approval.scopes, choice.days)
    if choice.scope == "once":
        return None
    days = choice.days or DEFAULT_GRANT_DAYS
    return NewGrant(
        grant_id=new_id("grant"),
        subject=call_subject(approval.agent_id, approval.payload),
        scope=choice.scope,
        lifetime=timedelta(days=days) if choice.scope == "always" else None,
    )


def _describe_decision(
    approval: Approval, outcome: Outcome, by: str, grant: NewGrant | None
) -> str:
    covers = ""
    if grant is not None:
        days = grant.lifetime.days if grant.lifetime is not None else 0
        covers = format_grant(
            grant.grant_id,
            grant.scope,
            days,
            grant.subject.destinations,
            hosts=approval.hosts,
        )
    return format_decision(
        summary_text(approval.request_type, approval.payload),
        approval.approval_id,
        outcome,
        by,
        approval.request_type,
        too_late=approval.session_ended,
        grant=covers,
    )


def _describe_earlier_decision(approval: Approval) -> str:
    """Return the error text for a request that was decided before."""
    at = approval.resolved_at
    when = at.isoformat(timespec="seconds") if at else "before"
    if approval.decided_by == DECIDED_BY_END:
        text = _("{id} was withdrawn, {when}: its call has ended.")
    elif approval.status == "expired":
        text = _("{id} expired without a decision, {when}; the agent may ask again.")
    elif approval.status == "approved":
        text = _("{id} was approved by {by} already, {when}.")
    else:
        text = _("{id} was rejected by {by} already, {when}.")
    return text.format(id=approval.approval_id, when=when, by=approval.decided_by)


def no_request_text(reference: str) -> Message:
    """Return the error text for a request that does not exist, or is not this reader's."""
    return _("There is no approval request {id}.").format(id=repr(reference[:MAX_ID]))


class ApprovalExpiry:
    """Timer of open requests; expires the overdue ones.

    The waiting time is kept in the table. It is measured with the monotonic clock and only while
    choird runs. Neither a changed system clock nor a downtime, in which nobody could answer, expires
    a request.
    """

    def __init__(
        self,
        store: ApprovalStore,
        *,
        approvals: ApprovalService,
        configuration: ConfigService,
        clock: Clock,
    ) -> None:
        self._store = store
        self._approvals = approvals
        self._configuration = configuration
        self._clock = clock
        self._checked_at = clock.monotonic()

    async def expire_overdue(self) -> int:
        """Expire overdue requests; return how many."""
        now = self._clock.monotonic()
        elapsed = timedelta(seconds=min(now - self._checked_at, MAX_INTERVAL_S))
        timeout_ms = self._configuration.current.config.approval_timeout_ms
        overdue = await self._store.add_waiting_time(elapsed, timedelta(milliseconds=timeout_ms))
        # Only after a successful update: a failed one is counted by the next call.
        self._checked_at = now
        expired_count = 0
        for approval_id in overdue:
            try:
                await self._approvals.decide(approval_id, "expired", DECIDED_BY_TIMEOUT)
                expired_count += 1
            except Conflict:
                log.info("decided before it expired", approval_id=approval_id)
        return expired_count
