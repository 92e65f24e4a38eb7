"""Store of grants: the table `grants`. `ApprovalStore` inserts a grant in the statement that approves."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from choir_common.errors import NotFound
from choir_common.grants import CallScope, GrantSubject, call_subject, covers
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.grants import GrantScope, GrantView
from choir_common.wire.rpc import ApprovalRequest
from choir_control.log.leases.store import Lease

_ACTIVE = """
SELECT g.* FROM choir_control.grants AS g LEFT JOIN choir_control.sessions AS s USING (session_id)
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
  AND (scope = 'always' OR s.status IN ('starting', 'active', 'stopping', 'crashed'))
"""
# FOR SHARE: a revocation that is under way ends first, and then the grant is not found.
_OF_TOOL = """
SELECT g.* FROM choir_control.grants AS g
WHERE g.agent_id = $1 AND tool = $2 AND revoked_at IS NULL ORDER BY grant_id FOR SHARE
"""
_REVOKE = """
UPDATE choir_control.grants AS g SET revoked_at = clock_timestamp(), revoked_by = $2
WHERE grant_id = $1 AND revoked_at IS NULL AND ($3::text IS NULL OR g.agent_id = $3)
RETURNING g.*
"""


@dataclass(frozen=True, slots=True)
class NewGrant:
    """The grant that an approval creates."""

    grant_id: str
    subject: GrantSubject
    scope: GrantScope
    lifetime: timedelta | None
    """None: it ends with its job or session."""


async def find_covering_grant(
    connection: Connection, lease: Lease, request: ApprovalRequest
) -> str | None:
    """Return the id of a grant that covers a requested call, or None."""
    if request.request_type != "call":
        return None
    subject = call_subject(lease.agent_id, request.payload)
    place, now = CallScope(lease.session_id, request.job_id), datetime.now(UTC)
    for row in await connection.fetch(_OF_TOOL, subject.agent_id, subject.tool):
        if covers(_view(row), subject, place=place, now=now, use=request.grants):
            return str(row["grant_id"])
    return None


class GrantStore:
    """Listing and revocation of grants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_active(self, agent_id: str | None = None) -> list[GrantView]:
        """Return the grants that can cover a call, of one agent or of all, oldest first."""
        rows = await self._database.fetch(
            _ACTIVE + " AND ($1::text IS NULL OR g.agent_id = $1) ORDER BY grant_id", agent_id
        )
        return [_view(row) for row in rows]

    async def revoke(self, grant_id: str, by: str, agent_id: str | None = None) -> GrantView:
        """Revoke a grant, of `agent_id` if that is given; calls that were approved before still run.

        Raises NotFound if there is no such grant, or if it was revoked before.
        """
        row = await self._database.fetchrow(_REVOKE, grant_id, by, agent_id)
        if row is None:
            raise NotFound(f"There is no grant {grant_id[:100]!r} in force.")
        return _view(row)


def _view(row: Record) -> GrantView:
    fields = {name: row[name] for name in GrantView.model_fields}
    return GrantView(**{**fields, "destinations": tuple(row["destinations"])})
