"""Take up what humans decided: a waiting call goes on, a proposal's outcome becomes an event (spec 8.10).

Called by `receive`. A decision may overtake the result that names its proposal: it is kept until then.
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
    """What was decided and is not in the log yet."""

    def __init__(self, arbiter: Arbiter, approvals: Approvals) -> None:
        self._arbiter = arbiter
        self._approvals = approvals
        self._early: dict[str, ApprovalResolvedSignal] = {}

    def take_up(self, decision: ApprovalResolvedSignal) -> None:
        """Act on a decision, once however often it is told."""
        if self._approvals.resolve(decision.approval_id) or self._told(decision):
            return
        # nobody's yet; one on a call that has ended meanwhile never will be
        self._early[decision.approval_id] = decision
        if len(self._early) > MAX_EARLY:
            self._early.pop(next(iter(self._early)))

    def take_in(self, event: Committed) -> None:
        """Look whether a decision has waited for this result."""
        if not self._early or not isinstance(event.payload, ToolResultCommitted):
            return
        early = self._early.pop(str(event.payload.output.get("approval_id")), None)
        if early is not None:
            # this event must be everywhere before the next one
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
