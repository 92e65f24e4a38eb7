"""Keep the tables of leases: exclusive resources, and which token a session has now.

Called by `guard` and, inside their transactions, by the stores of `sessions`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.errors import Conflict
from choir_common.postgres.pool import Connection, Database
from choir_common.wire.rpc import ResourceBindings
from choir_control.leases.bindings import COLUMNS, bound_now


@dataclass(frozen=True, slots=True)
class Lease:
    """A session's right to act, as its token proves it."""

    session_id: str
    agent_id: str
    epoch: int
    digest: bytes
    bindings: ResourceBindings
    """In force now: what the session was started with, and what was changed for it since."""
    settings_rev: int = 0
    """How often something was changed; part of the version of its settings."""

    @property
    def dm(self) -> str:
        """Return the conversation the session holds."""
        return self.bindings.dm


async def acquire(
    held: Connection, session_id: str, agent_id: str, resources: Sequence[str]
) -> None:
    """Lease all `resources` to a session, in the caller's transaction.

    Raises Conflict naming each holder and what to do when one is taken; the transaction must then be
    rolled back.
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
        "SELECT resource, agent_id, session_id FROM choir_control.leases WHERE resource = ANY($1) "
        "ORDER BY resource",
        sorted(missing),
    )
    who = "; ".join(_held(row["resource"], row["agent_id"], row["session_id"]) for row in holders)
    raise Conflict(f"{agent_id} cannot start: {who or 'a resource was just taken; try again'}.")


def _held(resource: str, agent_id: str, session_id: str | None) -> str:
    """Say who holds a resource and what to do about it."""
    kind, name = resource.split(":", 1)
    if session_id is None:
        return f"{resource} is held by {agent_id}; wait until that is done"
    return (
        f"{resource} is held by agent {agent_id}; stop that one (`choirctl agent stop {agent_id}`), or "
        f"start this one with another than {name} (--{kind.replace('_', '-')})"
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has an exclusive resource; without a session it is an operator's work."""

    agent_id: str
    session_id: str | None


class LeaseStore:
    """Which token a session has now, and who holds what."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str) -> Lease | None:
        """Return the lease of a session whose token is alive."""
        row = await self._database.fetchrow(
            f"""
            SELECT session_id, agent_id, epoch, token_sha256, {COLUMNS}
            FROM choir_control.sessions WHERE session_id = $1 AND token_sha256 IS NOT NULL
            """,  # noqa: S608 our own column names
            session_id,
        )
        if row is None:
            return None
        return Lease(
            session_id=row["session_id"],
            agent_id=row["agent_id"],
            epoch=row["epoch"],
            digest=row["token_sha256"],
            bindings=bound_now(row),
            settings_rev=row["settings_rev"],
        )

    async def was_valid(self, session_id: str, digest: bytes) -> bool:
        """Tell whether this was the session's token under an epoch that is over."""
        found = await self._database.fetchval(
            "SELECT true FROM choir_control.session_epochs "
            "WHERE session_id = $1 AND token_sha256 = $2",
            session_id,
            digest,
        )
        return bool(found)

    async def holders(self, prefix: str) -> dict[str, Holder]:
        """Return who holds the resources whose name begins with `prefix`."""
        rows = await self._database.fetch(
            "SELECT resource, agent_id, session_id FROM choir_control.leases "
            "WHERE starts_with(resource, $1)",
            prefix,
        )
        return {row["resource"]: Holder(row["agent_id"], row["session_id"]) for row in rows}

    async def hold(self, resource: str, who: str) -> bool:
        """Take a resource for work of an operator's; False when it is taken."""
        found = await self._database.fetchval(
            """
            INSERT INTO choir_control.leases (resource, session_id, agent_id)
            VALUES ($1, NULL, $2) ON CONFLICT (resource) DO NOTHING RETURNING true
            """,
            resource,
            who,
        )
        return bool(found)

    async def drop(self, resource: str) -> None:
        """Give a resource back that `hold` took."""
        await self._database.execute(
            "DELETE FROM choir_control.leases WHERE resource = $1 AND session_id IS NULL", resource
        )

    async def drop_stale(self) -> int:
        """Free what nobody can hold any more when control starts; return how many there were.

        A lease is good as long as its session's token is; operators' work ended with the last control.
        """
        gone = await self._database.fetch(
            """
            DELETE FROM choir_control.leases AS l
            WHERE NOT EXISTS (
                SELECT 1 FROM choir_control.sessions AS s
                WHERE s.session_id = l.session_id AND s.token_sha256 IS NOT NULL)
            RETURNING 1
            """
        )
        return len(gone)
