"""Handler for humans' decisions: wakes a waiting call, or records the decision on a proposal as an event.

Called by `receive`. A decision may arrive before the tool result that contains its proposal; it is
buffered.
"""

import asyncio

from choir_agent.arbiter.approvals import Approvals
from choir_agent.arbiter.arbiter import Arbiter
from choir_agent.log.committed import Committed
from choir_agent.log.state import EDGE
from choir_common.wire.events import ApprovalDecided, ToolResultCommitted
from choir_common.wire.signals import ApprovalResolvedSignal

MAX_EARLY = 100


class Decisions:
    """Buffer of decisions that have no place in the log yet."""

    def __init__(self, arbiter: Arbiter, approvals: Approvals) -> None:
        self._arbiter = arbiter
        self._approvals = approvals
        self._early: dict[str, ApprovalResolvedSignal] = {}

    def take_up(self, decision: ApprovalResolvedSignal) -> None:
        """Apply a decision; repeated signals have no effect."""
        if self._approvals.resolve(decision.approval_id) or self._told(decision):
            return
        # No call or proposal matches yet. If its call ended in the meantime, none ever will: hence the
        # limit.
        self._early[decision.approval_id] = decision
        if len(self._early) > MAX_EARLY:
            self._early.pop(next(iter(self._early)))

    def take_in(self, event: Committed) -> None:
        """Apply a buffered decision if this event is the result that it belongs to."""
        if not self._early or not isinstance(event.payload, ToolResultCommitted):
            return
        early = self._early.pop(str(event.payload.output.get("approval_id")), None)
        if early is not None:
            # Defer: all listeners must receive this event before another one is committed.
            asyncio.get_running_loop().call_soon(self._told, early)

    def _told(self, decision: ApprovalResolvedSignal) -> bool:
        proposals = self._arbiter.state.proposals
        found = next((p for p in proposals if p.approval_id == decision.approval_id), None)
        if found is None:
            return False
        decided = ApprovalDecided(
            approval_id=found.approval_id, status=decision.status, what=found.what, dm=found.dm
        )
        self._arbiter.commit(EDGE, decided)
        return True
