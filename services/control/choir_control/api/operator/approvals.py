"""`/v1/approvals`: requests for a human's decision, the decision, and its effect."""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from choir_common.approvals import (
    LineKind,
    escape_line,
    request_digest,
    request_lines,
    request_subject,
)
from choir_common.grants import call_subject
from choir_common.http.routers import ServiceRouter
from choir_common.wire.operator import ApprovalLine, ApprovalView, Decision, Page
from choir_control.api.operator.authentication import operator_label
from choir_control.approvals.proposals.worker import ProposalWorker
from choir_control.approvals.server_questions import Answer
from choir_control.approvals.service import ApprovalService, GrantChoice
from choir_control.approvals.store import Approval, ApprovalStore, Verdict
from choir_control.approvals.texts import TOO_LATE

_LINE_KINDS: Mapping[LineKind, Literal["plain", "head", "place", "old", "new"]] = {
    LineKind.PLAIN: "plain",
    LineKind.HEAD: "head",
    LineKind.PLACE: "place",
    LineKind.OLD: "old",
    LineKind.NEW: "new",
}


def approval_routes(
    approvals: ApprovalStore, approval_service: ApprovalService, proposal_worker: ProposalWorker
) -> APIRouter:
    """Return the router."""
    router = ServiceRouter(prefix="/approvals", tags=["approvals"])

    @router.get("")
    async def list_approvals(
        limit: Annotated[int, Query(ge=1, le=500)] = 100,
    ) -> Page[ApprovalView]:
        """List pending requests, the oldest first, then the newest decided ones."""
        return Page(items=[_view(approval) for approval in await approvals.list_newest(limit)])

    @router.get("/{approval_id}")
    async def show_approval(approval_id: str) -> ApprovalView:
        """Show one request completely."""
        return await _render(await approval_service.find(approval_id))

    @router.post("/{approval_id}/approve")
    async def approve(
        approval_id: str, request: Request, decision: Decision | None = None
    ) -> ApprovalView:
        """Approve; 409 when it is already decided, or differs from what you were shown."""
        return await _decide(approval_id, "approved", operator_label(request), decision)

    @router.post("/{approval_id}/reject")
    async def reject(
        approval_id: str, request: Request, decision: Decision | None = None
    ) -> ApprovalView:
        """Reject; 409 when it is already decided."""
        return await _decide(approval_id, "rejected", operator_label(request), decision)

    @router.post("/{approval_id}/rollback")
    async def roll_back(approval_id: str, request: Request) -> ApprovalView:
        """Roll back an applied request; 409 when it is not applied, or later changes depend on it."""
        await approval_service.find(approval_id)
        await proposal_worker.roll_back(approval_id, operator_label(request))
        return await _render(await approval_service.find(approval_id))

    async def _decide(
        approval_id: str, verdict: Verdict, by: str, decision: Decision | None
    ) -> ApprovalView:
        choice = decision or Decision()
        approval = await approval_service.decide(
            approval_id, verdict, by, choice.digest, scope=_scope(choice), answer=_answer(choice)
        )
        return await _render(approval)

    return router


def _scope(decision: Decision) -> GrantChoice:
    return GrantChoice(decision.scope, decision.days)


def _answer(decision: Decision) -> Answer:
    return Answer(decision.values, decision.dismiss)


def _is_too_late(approval: Approval) -> bool:
    return approval.session_ended and approval.status in ("pending", "approved")


def _view(approval: Approval) -> ApprovalView:
    return ApprovalView(
        approval_id=approval.approval_id,
        session_id=approval.session_id,
        agent_id=approval.agent_id,
        request_type=approval.request_type,
        payload=approval.payload,
        digest=approval.digest,
        status=approval.status,
        created_at=approval.created_at,
        resolved_at=approval.resolved_at,
        decided_by=approval.decided_by,
        basis=approval.basis,
        state=approval.state,
        detail=TOO_LATE if _is_too_late(approval) else approval.detail,
        scopes=approval.scopes,
        subject=request_subject(approval.request_type, approval.payload),
        hosts=tuple(escape_line(host) for host in approval.hosts),
    )


async def _render(approval: Approval) -> ApprovalView:
    """Return the complete view; the lines of a large request take too long for the event loop."""
    return await asyncio.to_thread(_complete_view, approval)


def _complete_view(approval: Approval) -> ApprovalView:
    """Return the view with every line that the digest covers, and whether it still covers them."""
    content = (approval.request_type, approval.payload, approval.basis)
    lines = tuple(
        ApprovalLine(kind=_LINE_KINDS[line.mark], text=line.text)
        for line in request_lines(*content)
    )
    # Requests of early versions have no digest; all of them were decided long ago.
    intact = approval.digest in ("", request_digest(*content))
    update = {"lines": lines, "intact": intact, "destinations": _destinations(approval)}
    return _view(approval).model_copy(update=update)


def _destinations(approval: Approval) -> tuple[str, ...]:
    if approval.request_type != "call":
        return ()
    subject = call_subject(approval.agent_id, approval.payload)
    return tuple(escape_line(destination) for destination in subject.destinations)
