"""Store of grants: the table `grants`. `ApprovalStore` inserts a grant in the statement that approves."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from choir_common.errors import NotFound
from choir_common.grants import CallScope, GrantSubject, call_subject, covers, covers_hosts
from choir_common.hosts import is_known_host
from choir_common.i18n import _
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.grants import GrantScope, GrantView
from choir_common.wire.rpc import ApprovalRequest
from choir_control.approvals.tool_pins import find_pinned_yes
from choir_control.log.leases.store import Lease

_ACTIVE = """
SELECT g.* FROM choir_control.grants AS g LEFT JOIN choir_control.sessions AS s USING (session_id)
WHERE revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp())
  AND (scope = 'always' OR s.status IN ('starting', 'active', 'stopping', 'crashed'))
"""
# A yes covers calls for the conversation that gave it.
# FOR SHARE: a revocation that is under way ends first, and then the grant is not found.
_OF_TOOL = """
SELECT g.* FROM choir_control.grants AS g
WHERE g.agent_id = $1 AND tool = $2 AND dm IS NOT DISTINCT FROM $3::text AND revoked_at IS NULL
ORDER BY grant_id FOR SHARE
"""
_OF_HOSTS = """
SELECT g.* FROM choir_control.grants AS g
WHERE g.agent_id = $1 AND hosts <> '{}' AND dm IS NOT DISTINCT FROM $2::text AND revoked_at IS NULL
ORDER BY grant_id FOR SHARE
"""
_NAMED_HOSTS = """
SELECT array(SELECT DISTINCT unnest(hosts) FROM choir_control.inbox WHERE dm = $1 AND hosts <> '{}')
"""
GRANT_PREFIX = "grant "
"""Beginning of `decided_by` if a grant answered the request."""
NAMED_BY_USER = "a message of the user"
"""`decided_by` if the user has named the hosts for which the call asked."""
_REVOKE = """
UPDATE choir_control.grants AS g SET revoked_at = clock_timestamp(), revoked_by = $2
WHERE grant_id = $1 AND revoked_at IS NULL
  AND ($3::text IS NULL OR (g.agent_id = $3 AND g.dm IS NOT DISTINCT FROM $4::text))
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


async def find_earlier_yes(
    connection: Connection, lease: Lease, request: ApprovalRequest
) -> str | None:
    """Return the decider of a call, or of a server's tools, that a person agreed to before, or None.

    New hosts of the call must be covered in any case.
    """
    if request.request_type == "mcp_tools":
        return await find_pinned_yes(connection, lease.agent_id, request.payload)
    if request.request_type != "call":
        return None
    place, now = CallScope(lease.session_id, request.job_id), datetime.now(UTC)
    by = (
        await _find_yes_to_hosts(connection, lease, request.hosts, place) if request.hosts else None
    )
    if request.grants == "hosts" or (request.hosts and by is None):
        return by
    subject = call_subject(lease.agent_id, request.payload)
    for row in await connection.fetch(
        _OF_TOOL, subject.agent_id, subject.tool, lease.turn_dm or None
    ):
        if covers(_view(row), subject, place=place, now=now, use=request.grants):
            return f"{GRANT_PREFIX}{row['grant_id']}"
    return None


async def _find_yes_to_hosts(
    connection: Connection, lease: Lease, hosts: Sequence[str], place: CallScope
) -> str | None:
    """Return who named or allowed all these hosts, or None."""
    user_hosts = await connection.fetchval(_NAMED_HOSTS, lease.dm)
    remaining = {host for host in hosts if not is_known_host(host, user_hosts)}
    by, now = NAMED_BY_USER, datetime.now(UTC)
    for row in await connection.fetch(_OF_HOSTS, lease.agent_id, lease.turn_dm or None):
        covered = covers_hosts(_view(row), lease.agent_id, remaining, place=place, now=now)
        if covered:
            remaining, by = remaining - covered, f"{GRANT_PREFIX}{row['grant_id']}"
    return None if remaining else by


class GrantStore:
    """Listing and revocation of grants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_active(
        self, agent_id: str | None = None, further_dm: str | None = None
    ) -> list[GrantView]:
        """Return the grants that can cover a call, oldest first: all, or those of one conversation.

        `further_dm` is None for the home conversation.
        """
        rows = await self._database.fetch(
            _ACTIVE
            + " AND ($1::text IS NULL OR (g.agent_id = $1 AND g.dm IS NOT DISTINCT FROM $2::text)) "
            "ORDER BY grant_id",
            agent_id,
            further_dm,
        )
        return [_view(row) for row in rows]

    async def revoke(
        self, grant_id: str, by: str, agent_id: str | None = None, further_dm: str | None = None
    ) -> GrantView:
        """Revoke a grant, of one conversation if `agent_id` is given; calls approved before still run.

        `further_dm` is None for the home conversation. Raises NotFound if there is no such grant, or if it
        was revoked before.
        """
        row = await self._database.fetchrow(_REVOKE, grant_id, by, agent_id, further_dm)
        if row is None:
            raise NotFound(
                _("There is no grant {grant_id!r} in force.").format(grant_id=grant_id[:100])
            )
        return _view(row)


def _view(row: Record) -> GrantView:
    fields = {name: row[name] for name in GrantView.model_fields}
    lists = {name: tuple(row[name]) for name in ("destinations", "hosts")}
    return GrantView(**{**fields, **lists})
