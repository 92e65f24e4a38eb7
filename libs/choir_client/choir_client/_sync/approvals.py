"""Approval requests: list, show, decide, roll back."""

from choir_client import operations
from choir_client._sync.connection import Connection
from choir_common.approvals import request_digest
from choir_common.errors import Conflict
from choir_common.i18n import _
from choir_common.wire.operator import ApprovalView, Decision

ApprovalList = list[ApprovalView]
_ONCE = Decision()
_MAX_LISTED = "500"


class Approvals:
    """The approval requests of a Choir."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> ApprovalList:
        """Return up to 500 requests: the pending ones, oldest first, then the newest decided ones."""
        params = {"limit": _MAX_LISTED}
        return (self._connection.call(operations.LIST_APPROVALS, params=params)).items

    def list_open(self) -> ApprovalList:
        """Return the requests that wait for a decision, oldest first."""
        return [view for view in self.list() if view.status == "pending"]

    def get(self, approval_id: str) -> ApprovalView:
        """Return one request with its lines. Raises NotFound, Conflict if its digest does not match."""
        names = {"approval_id": approval_id}
        view = self._connection.call(operations.SHOW_APPROVAL, names)
        # requests of early versions have no digest; all of them were decided long ago
        if view.digest in ("", request_digest(view.request_type, view.payload, view.basis)):
            return view
        raise Conflict(
            _(
                "{approval_id} does not match its digest: it was changed after the request. "
                "Reject it in a conversation, or let it expire."
            ).format(approval_id=view.approval_id)
        )

    def approve(self, request: ApprovalView, decision: Decision = _ONCE) -> ApprovalView:
        """Approve what `request` shows; raises Conflict if it was decided, or changed since it was read."""
        return self._connection.call(
            operations.APPROVE, {"approval_id": request.approval_id}, body=_bound(decision, request)
        )

    def reject(self, request: ApprovalView, decision: Decision = _ONCE) -> ApprovalView:
        """Reject a request; raises Conflict if it was decided, or changed since it was read."""
        return self._connection.call(
            operations.REJECT, {"approval_id": request.approval_id}, body=_bound(decision, request)
        )

    def roll_back(self, approval_id: str) -> ApprovalView:
        """Roll back an applied request. Raises Conflict if it is not applied, or if later changes need it."""
        return self._connection.call(operations.ROLL_BACK, {"approval_id": approval_id})


def _bound(decision: Decision, request: ApprovalView) -> Decision:
    """Return the decision with the digest of what was read: control refuses it if that has changed since."""
    return decision.model_copy(update={"digest": request.digest})
