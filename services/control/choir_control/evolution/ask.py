"""Intake of approval requests from agents (the verb REQUEST_APPROVAL).

Called by the rpc endpoint. Computes everything the human has to see; `approvals` stores the request.
"""

from collections.abc import Callable, Mapping

from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.approvals.store import ApprovalStore
from choir_control.evolution.carrier import Carrier
from choir_control.leases.store import Lease


class Intake:
    """Creates approval requests for agents."""

    def __init__(
        self,
        approvals: ApprovalStore,
        carriers: Mapping[str, Carrier],
        said: Callable[[str], None],
    ) -> None:
        """`said` is called with a conversation (DM) that has a new message."""
        self._approvals = approvals
        self._carriers = carriers
        self._said = said

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call; return its status.

        Raises BadInput for a request that cannot be applied, and the errors of `ApprovalStore.request`.
        """
        # A repeated request gets the first answer; computing the basis again could differ.
        known = await self._approvals.standing(lease, request)
        if known is not None:
            return known
        carrier = self._carriers.get(request.request_type)
        basis = (
            await carrier.basis(lease.agent_id, lease.session_id, request.payload)
            if carrier
            else {}
        )
        answer = await self._approvals.request(lease, request, basis)
        self._said(lease.bindings.dm)
        return answer
