"""Take a request for a decision, with all that the human has to see (REQUEST_APPROVAL, spec 19.6).

Called by the rpc door. What comes next is `approvals`, which stores it.
"""

from collections.abc import Callable, Mapping

from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.approvals.store import ApprovalStore
from choir_control.evolution.carrier import Carrier
from choir_control.leases.store import Lease


class Intake:
    """The agents' side of approvals."""

    def __init__(
        self,
        approvals: ApprovalStore,
        carriers: Mapping[str, Carrier],
        said: Callable[[str], None],
    ) -> None:
        """`said` hears of a conversation with news."""
        self._approvals = approvals
        self._carriers = carriers
        self._said = said

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call; return where it stands.

        Raises BadInput for what cannot be carried out, and what `ApprovalStore.request` raises.
        """
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
