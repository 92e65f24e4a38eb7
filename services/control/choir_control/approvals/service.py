"""Decisions on approval requests, each made once: by an operator, by a button, or by expiry.

Called by the operator API, `press` and `expire`. The session's signal and the text for the
conversation are stored together with the decision. So is the order to carry out the request, which
`evolution` then does. See docs/design/approvals.md.

Expiry of approval requests that nobody decided in time. Run by `app`.

The waiting time is kept in the table. It is measured with the monotonic clock and only while choird
runs. Neither a changed system clock nor a downtime, in which nobody could answer, expires a
request.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from choir_common.approvals.rendering import request_summary
from choir_common.clock import Clock
from choir_common.errors import Conflict, NotFound
from choir_control.approvals.store import Approval, ApprovalStore, Outcome, PressedButton
from choir_control.approvals.texts import DECIDED_BY_TIMEOUT, format_decision

log = structlog.get_logger("choir.approvals")

MAX_ID = 100


class ApprovalService:
    """Lookup and decision of approval requests."""

    def __init__(
        self,
        store: ApprovalStore,
        order: Callable[[str], asyncio.Lock],
        ring: Callable[[str], None],
        said: Callable[[str], None] = lambda _: None,
        approved: Callable[[], None] = lambda: None,
    ) -> None:
        """Create the service.

        `order` returns the lock of a conversation's signals, `ring` wakes the followers of a
        session. `said` receives a conversation (DM) with a new message in the outbox. `approved`
        wakes the worker that carries out requests.
        """
        self._store = store
        self._order = order
        self._ring = ring
        self._said = said
        self._approved = approved

    async def find(self, approval_id: str) -> Approval:
        """Return a request; raises NotFound."""
        plausible = 0 < len(approval_id) <= MAX_ID and approval_id.isprintable()
        found = await self._store.get(approval_id) if plausible else None
        if found is None:
            raise NotFound(f"There is no request {approval_id[:MAX_ID]!r} for a decision.")
        return found

    async def decide(
        self,
        approval_id: str,
        outcome: Outcome,
        by: str,
        digest: str | None = None,
        hand: PressedButton | None = None,
    ) -> Approval:
        """Approve, reject or expire a request and return its new state.

        `by` is stored as the decider. `digest` is the one that the decider saw, if known; `hand`
        identifies the pressed button, if there was one. Raises NotFound, or Conflict if the request
        was decided before or its content differs from `digest`.
        """
        asked = await self.find(approval_id)
        if digest is not None and digest != asked.digest:
            raise Conflict(
                f"{approval_id} asks for something else than what you were shown; look at it again."
            )
        gist = request_summary(asked.request_type, asked.payload)
        words = format_decision(
            gist, approval_id, outcome, by, asked.request_type, too_late=asked.session_ended
        )
        async with self._order(asked.dm):
            won = await self._store.decide(approval_id, outcome, by, words, hand)
        now = await self.find(approval_id)
        if not won:
            raise Conflict(_already(now))
        self._ring(now.session_id)
        self._said(now.dm)
        log.info(
            "decided",
            approval_id=approval_id,
            outcome=outcome,
            by=by,
            agent=now.agent_id,
            session=now.session_id,
            request_type=now.request_type,
            digest=now.digest,
        )
        if outcome == "approved":
            self._approved()
        return now


def _already(decided: Approval) -> str:
    """Return the error text for a request that was decided before."""
    at = decided.resolved_at
    when = at.isoformat(timespec="seconds") if at else "before"
    if decided.status == "expired":
        return f"{decided.approval_id} expired without a decision, {when}; the agent may ask again."
    return f"{decided.approval_id} was {decided.status} by {decided.decided_by} already, {when}."


INTERVAL_S = 5.0
# A longer interval means that this process was suspended, and then nobody could decide either.
MAX_INTERVAL_S = 3 * INTERVAL_S


class ApprovalExpiry:
    """Timer of open requests; expires the overdue ones."""

    def __init__(
        self,
        store: ApprovalStore,
        desk: ApprovalService,
        patience: Callable[[], timedelta],
        clock: Clock,
    ) -> None:
        self._store = store
        self._desk = desk
        self._patience = patience
        self._clock = clock
        self._looked_at = clock.monotonic()

    async def expire_overdue(self) -> int:
        """Expire overdue requests; return how many."""
        now = self._clock.monotonic()
        passed = timedelta(seconds=min(now - self._looked_at, MAX_INTERVAL_S))
        overdue = await self._store.add_waiting_time(passed, self._patience())
        # Only after a successful update: a failed one is counted by the next call.
        self._looked_at = now
        expired = 0
        for approval_id in overdue:
            try:
                await self._desk.decide(approval_id, "expired", DECIDED_BY_TIMEOUT)
                expired += 1
            except Conflict:
                log.info("decided at the last moment", approval_id=approval_id)
        return expired
