"""Interface of a proposal type, and the intake of approval requests (the verb REQUEST_APPROVAL).

The intake computes what the human has to see before it stores a request.
"""

from collections.abc import Mapping
from typing import Protocol

from choir_common.errors import Conflict
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.approvals.server_questions import REQUEST_TYPE as QUESTION
from choir_control.approvals.server_questions import check_question
from choir_control.approvals.store import Approval, ApprovalStore
from choir_control.approvals.tool_pins import REQUEST_TYPE as TOOL_PINS
from choir_control.approvals.tool_pins import ToolPinBasis
from choir_control.configuration.current import ConfigService
from choir_control.log.leases.store import Lease
from choir_control.log.signals.notifier import OutboxRescanner


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

        Raises StaleProposal when something differs, Conflict or InvalidRequest when the change is impossible.
        """
        ...

    async def apply(self, approval: Approval, plan: JsonObject) -> str:
        """Execute the plan; return a text for people. Idempotent: a second call has no further effect.

        Raises StaleProposal when the state has changed since the plan was made, Unavailable to be retried.
        """
        ...

    async def plan_rollback(self, approval: Approval, plan: JsonObject) -> JsonObject:
        """Return the plan that rolls back an applied one; raises Conflict when it is impossible."""
        ...


class ApprovalIntake:
    """Creates approval requests for agents."""

    def __init__(
        self,
        approvals: ApprovalStore,
        proposal_types: Mapping[str, ProposalType],
        outbox: OutboxRescanner,
        *,
        tool_pins: ToolPinBasis,
        configuration: ConfigService,
    ) -> None:
        self._tool_pins, self._configuration = tool_pins, configuration
        self._approvals = approvals
        self._proposal_types = proposal_types
        self._outbox = outbox

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call and ask the conversation that it names; return its status.

        Raises InvalidRequest for a request that cannot be applied, or for another conversation, and the
        errors of `ApprovalStore.create`.
        """
        lease = lease.in_conversation(request.dm)
        # A repeated request gets the first answer; computing the basis again could differ.
        earlier = await self._approvals.find_by_call(lease, request)
        if earlier is not None:
            return earlier
        response = await self._approvals.create(
            lease, request, await self._make_basis(lease, request)
        )
        for dm in {lease.dm, self._approvals.find_decider(lease)}:
            self._outbox.rescan(dm)
        return response

    async def _make_basis(self, lease: Lease, request: ApprovalRequest) -> JsonObject:
        if request.request_type == TOOL_PINS:
            return await self._tool_pins.make_basis(lease.agent_id, request.payload)
        if request.request_type == QUESTION:
            check_question(self._configuration, lease.agent_id, request.payload)
            return {}
        proposal_type = self._proposal_types.get(request.request_type)
        if proposal_type is None:
            return {"why": request.why} if request.why else {}
        return await proposal_type.make_basis(lease.agent_id, lease.session_id, request.payload)
