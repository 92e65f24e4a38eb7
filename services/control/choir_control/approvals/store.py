"""Keep the table `pending_approvals` (spec 23.1). Called by the rpc and operator doors."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import orjson

from choir_common.errors import BadInput
from choir_common.eventlog.chain import canonical
from choir_common.ids import new_id
from choir_common.postgres.pool import Database
from choir_common.wire.json import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_control.leases.store import Lease

MAX_CALL_ID = 200
ApprovalStatus = Literal["pending", "approved", "rejected"]


@dataclass(frozen=True, slots=True)
class Approval:
    """A request and where it stands."""

    approval_id: str
    session_id: str
    agent_id: str
    call_id: str
    request_type: str
    payload: JsonObject
    status: ApprovalStatus
    created_at: datetime
    resolved_at: datetime | None


class ApprovalStore:
    """The table `pending_approvals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call; return where it stands.

        Raises BadInput for a call id that cannot be stored.
        """
        if not 0 < len(request.call_id) <= MAX_CALL_ID or "\x00" in request.call_id:
            raise BadInput(f"call_id must have 1 to {MAX_CALL_ID} characters, and no NUL.")
        # the no-op update makes the existing row visible to RETURNING
        row = await self._database.fetchrow(
            """
            INSERT INTO choir_control.pending_approvals
                (approval_id, session_id, agent_id, call_id, request_type, payload)
            VALUES ($1, $2, $3, $4, $5, $6::json)
            ON CONFLICT (session_id, call_id) DO UPDATE SET call_id = EXCLUDED.call_id
            RETURNING approval_id, status
            """,
            new_id("appr"),
            lease.session_id,
            lease.agent_id,
            request.call_id,
            request.request_type,
            canonical(request.payload).decode(),
        )
        if row is None:
            raise BadInput("The approval could not be stored.")
        return ApprovalResponse(approval_id=row["approval_id"], status=row["status"])

    async def newest(self, limit: int) -> list[Approval]:
        """Return the newest requests, the pending ones first."""
        rows = await self._database.fetch(
            """
            SELECT approval_id, session_id, agent_id, call_id, request_type, payload, status,
                   created_at, resolved_at
            FROM choir_control.pending_approvals
            ORDER BY status = 'pending' DESC, created_at DESC LIMIT $1
            """,
            limit,
        )
        return [Approval(**{**dict(row), "payload": orjson.loads(row["payload"])}) for row in rows]
