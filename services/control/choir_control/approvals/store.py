"""Keep the table `pending_approvals` (spec 23.1). Called by the rpc door and by `decide`.

A decision is one statement: whoever changes the row from `pending` has decided, and the session's signal is
stored with it or not at all.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

import orjson

from choir_common.errors import BadInput, Conflict, RateLimited
from choir_common.eventlog.chain import canonical
from choir_common.ids import new_id
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.json import JsonObject
from choir_common.wire.rpc import ApprovalRequest, ApprovalResponse
from choir_common.wire.signals import ApprovalResolvedSignal
from choir_control.approvals.digest import digest_of
from choir_control.leases.store import Lease

MAX_CALL_ID = 200
MAX_PAYLOAD_BYTES = 200_000
MAX_PENDING = 20
"""Per session: more questions than that are no questions to a human any more."""
ApprovalStatus = Literal["pending", "approved", "rejected"]
Verdict = Literal["approved", "rejected"]

_COLUMNS = """approval_id, a.session_id, a.agent_id, call_id, request_type, payload, digest, a.status,
    created_at, resolved_at, decided_by, s.dm"""
_DECIDE = """
WITH decided AS (
    UPDATE choir_control.pending_approvals
    SET status = $2, resolved_at = clock_timestamp(), decided_by = $3
    WHERE approval_id = $1 AND status = 'pending'
    RETURNING session_id
), told AS (
    INSERT INTO choir_control.signals (session_id, body)
    SELECT session_id, $4::json FROM decided JOIN choir_control.sessions USING (session_id)
    WHERE status IN ('starting', 'active', 'stopping', 'crashed')
)
SELECT session_id FROM decided
"""


@dataclass(frozen=True, slots=True)
class Approval:
    """A request and where it stands."""

    approval_id: str
    session_id: str
    agent_id: str
    call_id: str
    request_type: str
    payload: JsonObject
    digest: str
    status: ApprovalStatus
    created_at: datetime
    resolved_at: datetime | None
    decided_by: str | None
    dm: str


class ApprovalStore:
    """The table `pending_approvals`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def request(self, lease: Lease, request: ApprovalRequest) -> ApprovalResponse:
        """Store a request once per call; return where it stands.

        Raises BadInput for one that cannot be stored, Conflict when the same call asked for something
        else before, RateLimited while too many of the session's questions are open.
        """
        if not 0 < len(request.call_id) <= MAX_CALL_ID or "\x00" in request.call_id:
            raise BadInput(f"call_id must have 1 to {MAX_CALL_ID} characters, and no NUL.")
        payload = canonical(request.payload)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise BadInput(f"A request takes at most {MAX_PAYLOAD_BYTES} bytes of JSON.")
        digest = digest_of(request.request_type, request.payload)
        async with self._database.transaction() as held:
            # one request of a session at a time, or the count below would not hold
            await held.execute(
                "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
                f"approvals of {lease.session_id}",
            )
            present = await self._present(held, lease, request, digest)
            return present or await self._insert(held, lease, request, payload.decode(), digest)

    async def _present(
        self, held: Connection, lease: Lease, request: ApprovalRequest, digest: str
    ) -> ApprovalResponse | None:
        row = await held.fetchrow(
            "SELECT approval_id, status, digest FROM choir_control.pending_approvals "
            "WHERE session_id = $1 AND call_id = $2",
            lease.session_id,
            request.call_id,
        )
        if row is None:
            return None
        if row["digest"] != digest:
            raise Conflict(
                f"The call {request.call_id} has asked for something else before; a decision holds for "
                "exactly what was shown."
            )
        return ApprovalResponse(approval_id=row["approval_id"], status=row["status"])

    async def _insert(
        self, held: Connection, lease: Lease, request: ApprovalRequest, payload: str, digest: str
    ) -> ApprovalResponse:
        pending = await held.fetchval(
            "SELECT count(*) FROM choir_control.pending_approvals "
            "WHERE session_id = $1 AND status = 'pending'",
            lease.session_id,
        )
        if pending >= MAX_PENDING:
            raise RateLimited(
                f"{pending} questions of this session wait for a human already; no more are taken until "
                "one of them is decided."
            )
        approval_id = new_id("appr")
        await held.execute(
            """
            INSERT INTO choir_control.pending_approvals
                (approval_id, session_id, agent_id, call_id, request_type, payload, digest)
            VALUES ($1, $2, $3, $4, $5, $6::json, $7)
            """,
            approval_id,
            lease.session_id,
            lease.agent_id,
            request.call_id,
            request.request_type,
            payload,
            digest,
        )
        return ApprovalResponse(approval_id=approval_id, status="pending")

    async def decide(self, approval_id: str, verdict: Verdict, by: str) -> bool:
        """Decide, and queue the session's signal; return whether it was this that decided."""
        body = ApprovalResolvedSignal(approval_id=approval_id, status=verdict)
        found = await self._database.fetchval(
            _DECIDE, approval_id, verdict, by, body.model_dump_json()
        )
        return found is not None

    async def get(self, approval_id: str) -> Approval | None:
        """Return one request."""
        row = await self._database.fetchrow(
            f"SELECT {_COLUMNS} FROM choir_control.pending_approvals AS a "  # noqa: S608 - our own names
            "JOIN choir_control.sessions AS s USING (session_id) WHERE approval_id = $1",
            approval_id,
        )
        return None if row is None else _approval(row)

    async def newest(self, limit: int) -> list[Approval]:
        """Return the newest requests, the pending ones first."""
        rows = await self._database.fetch(
            f"SELECT {_COLUMNS} FROM choir_control.pending_approvals AS a "  # noqa: S608 - our own names
            "JOIN choir_control.sessions AS s USING (session_id) "
            "ORDER BY a.status = 'pending' DESC, created_at DESC LIMIT $1",
            limit,
        )
        return [_approval(row) for row in rows]

    async def overdue(self, older_than: timedelta, limit: int) -> list[str]:
        """Return requests that have waited that long, oldest first."""
        rows = await self._database.fetch(
            "SELECT approval_id FROM choir_control.pending_approvals WHERE status = 'pending' "
            "AND created_at < clock_timestamp() - $1::interval ORDER BY created_at LIMIT $2",
            older_than,
            limit,
        )
        return [row["approval_id"] for row in rows]


def _approval(row: Record) -> Approval:
    return Approval(**{**dict(row), "payload": orjson.loads(row["payload"])})
