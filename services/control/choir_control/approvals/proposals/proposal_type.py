"""Interface of a proposal type: how it is shown, planned, applied and rolled back.

Intake of approval requests from agents (the verb REQUEST_APPROVAL).

Called by the rpc endpoint. Computes everything the human has to see; `approvals` stores the request.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from choir_common.errors import Conflict
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.log.leases.store import Lease


class StaleProposal(Conflict):
    """The state has changed since the human was shown it; the agent must propose again."""


class ProposalType(Protocol):
    """One proposal type. Plans are JSON, because they are stored and outlive the process."""

    async def make_basis(self, agent_id: str, session_id: str, payload: JsonObject) -> JsonObject:
        """Return what the human is shown with the payload, and the state that must not change.

        Raises InvalidRequest for a request that can never be applied.
        """
        ...

    async def make_plan(self, approval: Approval) -> JsonObject:
        """Compare the current state with what was shown; return the plan.

        Raises Stale when something differs, Conflict or InvalidRequest when the change is impossible.
        """
        ...

    async def apply(self, asked: Approval, plan: JsonObject) -> str:
        """Execute the plan; return a text for people. Idempotent: a second call has no further effect.

        Raises Stale when the state has changed since the plan was made, Unavailable to be retried.
        """
        ...

    async def plan_rollback(self, asked: Approval, plan: JsonObject) -> JsonObject:
        """Return the plan that rolls back an applied one; raises Conflict when it is impossible."""
        ...


class ApprovalIntake:
    """Creates approval requests for agents."""

    def __init__(
        self,
        approvals: ApprovalStore,
        proposal_types: Mapping[str, ProposalType],
        notify_conversation: Callable[[str], None],
    ) -> None:
        """`said` is called with a conversation (DM) that has a new message."""
        self._approvals = approvals
        self._carriers = proposal_types
        self._said = notify_conversation

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call; return its status.

        Raises InvalidRequest for a request that cannot be applied, and the errors of `ApprovalStore.create`.
        """
        # A repeated request gets the first answer; computing the basis again could differ.
        known = await self._approvals.find_by_call(lease, request)
        if known is not None:
            return known
        carrier = self._carriers.get(request.request_type)
        basis = (
            await carrier.make_basis(lease.agent_id, lease.session_id, request.payload)
            if carrier
            else {}
        )
        answer = await self._approvals.create(lease, request, basis)
        self._said(lease.bindings.dm)
        return answer
