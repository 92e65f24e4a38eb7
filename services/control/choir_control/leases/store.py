"""Keep the tables of leases: exclusive resources, and which token a session has now.

Called by `guard` and, inside their transactions, by the stores of `sessions`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.errors import Conflict
from choir_common.postgres.pool import Connection, Database


@dataclass(frozen=True, slots=True)
class Lease:
    """A session's right to act, as its token proves it."""

    session_id: str
    agent_id: str
    epoch: int
    digest: bytes
    workspace: str
    llm: str
    dm: str


async def acquire(
    held: Connection, session_id: str, agent_id: str, resources: Sequence[str]
) -> None:
    """Lease all `resources` to a session, in the caller's transaction.

    Raises Conflict naming the holder when one is taken; the transaction must then be rolled back.
    """
    # sorted, so that two starts that want the same things never wait for each other in a circle
    rows = await held.fetch(
        """
        INSERT INTO choir_control.leases (resource, session_id, agent_id)
        SELECT r, $1, $2 FROM unnest($3::text[]) AS r ORDER BY r
        ON CONFLICT (resource) DO NOTHING RETURNING resource
        """,
        session_id,
        agent_id,
        sorted(resources),
    )
    missing = set(resources) - {row["resource"] for row in rows}
    if not missing:
        return
    holders = await held.fetch(
        "SELECT resource, agent_id FROM choir_control.leases WHERE resource = ANY($1)",
        sorted(missing),
    )
    who = ", ".join(f"{row['resource']} is held by agent {row['agent_id']}" for row in holders)
    raise Conflict(
        f"{agent_id} cannot start: {who or 'a resource was just taken'}. Stop that agent, or start "
        "this one with another resource."
    )


class LeaseStore:
    """Which token a session has now."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str) -> Lease | None:
        """Return the lease of a session whose token is alive."""
        row = await self._database.fetchrow(
            """
            SELECT session_id, agent_id, epoch, token_sha256 AS digest, workspace, llm, dm
            FROM choir_control.sessions WHERE session_id = $1 AND token_sha256 IS NOT NULL
            """,
            session_id,
        )
        return Lease(**row) if row else None

    async def was_valid(self, session_id: str, digest: bytes) -> bool:
        """Tell whether this was the session's token under an epoch that is over."""
        found = await self._database.fetchval(
            "SELECT true FROM choir_control.session_epochs "
            "WHERE session_id = $1 AND token_sha256 = $2",
            session_id,
            digest,
        )
        return bool(found)
