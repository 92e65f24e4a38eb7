"""Client for human approval of tool calls.

See docs/design/approvals.md.
"""

import asyncio

import structlog

from choir_agent.arbiter.call_execution import CallOutcome
from choir_agent.control_client.control_client import ControlClient
from choir_common.backoff import Backoff
from choir_common.errors import Conflict, Fenced, RateLimited, Unavailable
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse

log = structlog.get_logger("choir.agent.approvals")

# If the signal of a decision was lost, the same request sent again returns the decision.
POLL_INTERVAL_S = 30.0
MAX_BUFFERED_DECISIONS = 100
NOT_APPROVED = {
    "rejected": CallOutcome(
        "refused",
        {
            "code": "rejected",
            "message": "A human rejected this call, so it did not run. Do not try to reach the same in "
            "another way; tell the user that it was not done.",
        },
    ),
    "expired": CallOutcome(
        "refused",
        {
            "code": "expired",
            "message": "The request for approval expired: nobody decided in time, so this call did "
            "not run. Nobody rejected it; ask the user before you try it again.",
        },
    ),
    "changed": CallOutcome(
        "refused",
        {
            "code": "changed_after_question",
            "message": "A file of this call has changed since a person was asked about it, so the call "
            "did not run. Make it again, and a person is asked about the new content.",
        },
    ),
}
"""Outcomes of calls that nobody approved, by the request's status."""


class ApprovalClient:
    """Calls that wait for a human's decision, by approval id."""

    def __init__(self, control: ControlClient) -> None:
        self._control = control
        self._decided: dict[str, asyncio.Event] = {}
        self._early: dict[str, None] = {}
        self._pending: dict[str, asyncio.Event] = {}
        """By call id, from the moment that control reports no decision yet, or too many open requests."""
        self._wakeups: list[asyncio.Event] = []

    def wake_on_pending(self, wakeup: asyncio.Event) -> None:
        """Set this event, besides earlier ones, whenever a call begins to wait for a human."""
        self._wakeups.append(wakeup)

    def is_pending(self, call_id: str) -> bool:
        """Return whether a call waits for a human who has not decided, as far as is known."""
        decided = self._pending.get(call_id)
        return decided is not None and not decided.is_set()

    def resolve(self, approval_id: str) -> bool:
        """Wake the call that waits for this decision; return whether there is one."""
        waiting = self._decided.get(approval_id)
        if waiting is not None:
            waiting.set()
            return True
        # The signal may arrive before the response that contains the approval id.
        self._early[approval_id] = None
        if len(self._early) > MAX_BUFFERED_DECISIONS:
            self._early.pop(next(iter(self._early)))
        return False

    async def decision(self, request: ApprovalRequest) -> ApprovalResponse | None:
        """Request approval of a call and return the decision, for which it waits.

        Returns None if the same call requested something else before a restart: a decision applies to what
        was shown.
        """
        call_id = request.call_id
        while True:
            try:
                answer = await self._ask(request)
            except Fenced:
                raise
            except Conflict:
                return None
            if answer.status != "pending":
                return answer
            if answer.approval_id in self._early:
                del self._early[answer.approval_id]
                continue
            decided = self._decided.setdefault(answer.approval_id, asyncio.Event())
            self._wait_for_human(call_id, decided)
            try:
                async with asyncio.timeout(POLL_INTERVAL_S):
                    await decided.wait()
            except TimeoutError:
                log.info("still waiting for a decision", approval_id=answer.approval_id)
            finally:
                self._decided.pop(answer.approval_id, None)
                self._pending.pop(call_id, None)

    async def _ask(self, request: ApprovalRequest) -> ApprovalResponse:
        # Control returns the same approval for the same call_id, so repeating the request is safe.
        backoff = Backoff()
        try:
            while True:
                try:
                    return await self._control.request_approval(request)
                except RateLimited as error:
                    # Too many requests are open: this one waits until a human has decided on another.
                    self._wait_for_human(request.call_id, asyncio.Event(), error.message)
                except Unavailable as error:
                    log.warning("approval request failed; retrying", error=error.message)
                await asyncio.sleep(backoff.pause_s())
        finally:
            self._pending.pop(request.call_id, None)

    def _wait_for_human(self, call_id: str, decided: asyncio.Event, why: str = "") -> None:
        """Record that a call can only wait for a human now."""
        if why:
            log.warning("approval request failed; retrying", reason=why)
        self._pending[call_id] = decided
        for wakeup in self._wakeups:
            wakeup.set()
