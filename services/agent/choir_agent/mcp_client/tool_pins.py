"""Requests for a person's yes to the tools of an MCP server.

Control keeps the pins: it knows which definitions were approved last and answers equal ones at once. See
decision 96.
"""

import time
from typing import Literal, Protocol

from choir_agent.mcp_client.definitions import payload_hash
from choir_common.wire.model import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse

REQUEST_TYPE: Literal["mcp_tools"] = "mcp_tools"
STALE_WITHIN_S = 2.0
"""A request that nobody could decide so soon expired earlier in this session."""
MAX_ATTEMPTS = 20

Verdict = Literal["approved", "rejected", "expired"]


class ApprovalSource(Protocol):
    """Asks control, and waits for a person's decision."""

    async def decision(self, request: ApprovalRequest) -> ApprovalResponse | None: ...


class ToolPins:
    """Client of the pins."""

    def __init__(self, approvals: ApprovalSource) -> None:
        self._approvals = approvals

    async def ask(self, server: str, payload: JsonObject) -> Verdict:
        """Return the decision on these definitions, for which it waits."""
        digest = payload_hash(payload)
        for attempt in range(MAX_ATTEMPTS):
            asked_at = time.monotonic()
            answer = await self._approvals.decision(
                ApprovalRequest(
                    request_type=REQUEST_TYPE,
                    # The same after a crash, so that the same request is not shown twice.
                    call_id=f"mcp:{server}:{digest[:32]}:{attempt}",
                    payload=payload,
                )
            )
            if answer is None:
                return "rejected"
            if answer.status in ("approved", "rejected"):
                return "approved" if answer.status == "approved" else "rejected"
            if time.monotonic() - asked_at > STALE_WITHIN_S:
                break
        return "expired"
