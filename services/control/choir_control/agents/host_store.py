"""Store of the hosts that people have named or allowed: columns `hosts` of `inbox` and `grants`."""

from collections import defaultdict

from choir_common.postgres.pool import Database
from choir_common.wire.policy import AllowedHost
from choir_control.log.leases.conversations import conversations_sql

MAX_HOSTS = 2_000
"""Hosts of all running agents together, the newest first."""
_LIVE = "('starting', 'active', 'stopping', 'crashed')"
# The hosts that the users of running sessions have named, and those of grants that hold.
_ALLOWED = f"""
SELECT agent_id, host, named_by, max(at) AS at FROM (
    SELECT s.agent_id, unnest(i.hosts) AS host, 'dm ' || i.dm AS named_by, i.received_at AS at
    FROM choir_control.sessions AS s JOIN choir_control.inbox AS i ON i.dm = ANY({conversations_sql("s")})
    WHERE s.status IN {_LIVE} AND i.hosts <> '{{}}'
    UNION ALL
    SELECT g.agent_id, unnest(g.hosts), 'grant ' || g.grant_id, g.granted_at
    FROM choir_control.grants AS g LEFT JOIN choir_control.sessions AS s USING (session_id)
    WHERE g.hosts <> '{{}}' AND revoked_at IS NULL
      AND (expires_at IS NULL OR expires_at > clock_timestamp())
      AND (scope = 'always' OR (scope = 'session' AND s.status IN {_LIVE}))
) AS hosts WHERE $1::text IS NULL OR agent_id = $1
GROUP BY agent_id, host, named_by ORDER BY at DESC, host LIMIT {MAX_HOSTS}
"""  # noqa: S608 - constants


class HostStore:
    """Hosts that agents reach without a question because a person named or allowed them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def list_allowed(self, agent_id: str | None = None) -> list[AllowedHost]:
        """Return the hosts of running agents and of grants, the newest first."""
        rows = await self._database.fetch(_ALLOWED, agent_id)
        return [AllowedHost(**dict(row)) for row in rows]

    async def allowed_by_agent(self) -> dict[str, list[str]]:
        """Return the hosts by agent."""
        hosts: dict[str, list[str]] = defaultdict(list)
        for allowed in await self.list_allowed():
            hosts[allowed.agent_id].append(allowed.host)
        return hosts
