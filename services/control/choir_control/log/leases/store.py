"""Store of leases: exclusive resources, and the current token of each session.

The resource bindings of a session are fixed at its start; `model set` and `voice set` override them
until it ends.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import orjson

from choir_common.errors import Conflict, InvalidRequest
from choir_common.i18n import _, join
from choir_common.postgres.pool import Connection, Database, Record
from choir_common.wire.memory_modes import DEFAULT_MODE, MemoryMode
from choir_common.wire.rpc import ResourceBindings
from choir_control.log.leases.conversations import served_conversations_sql

COLUMNS = "workspace, llm, dm, resource_bindings, overrides, settings_rev"


def initial_bindings(record: Record) -> ResourceBindings:
    """Return the bindings a session was started with."""
    bindings_json = record["resource_bindings"]
    if bindings_json is not None:
        return ResourceBindings.model_validate_json(bindings_json)
    return ResourceBindings(workspace=record["workspace"], llm=record["llm"], dm=record["dm"])


def overrides_of(record: Record) -> Mapping[str, str]:
    """Return the bindings that were overridden since the start, by field."""
    overrides: dict[str, str] = orjson.loads(record["overrides"])
    return overrides


def current_bindings(record: Record) -> ResourceBindings:
    """Return the bindings in force."""
    return initial_bindings(record).model_copy(update=dict(overrides_of(record)))


@dataclass(frozen=True, slots=True)
class Lease:
    """A session's right to act, proven by its token."""

    session_id: str
    agent_id: str
    epoch: int
    digest: bytes
    bindings: ResourceBindings
    """Bindings in force: those of the start, with later overrides."""
    settings_rev: int = 0
    """Number of overrides so far; part of the version of the session's settings."""
    memory_mode: MemoryMode = DEFAULT_MODE
    recall: bool | None = None
    """Whether its conversation reads memory; None: as the agent's configuration says."""
    further_dms: tuple[str, ...] = ()
    """The conversations that the session serves beside its home conversation."""
    former_dms: tuple[str, ...] = ()
    """Those that have left it; they still get answers."""
    served_dms: tuple[str, ...] = ()
    """All conversations that the agent's sessions have ever served."""
    turn_dm: str = ""
    """The conversation for which the agent makes the present call; empty: the home conversation."""

    @property
    def dm(self) -> str:
        """Return the conversation (DM) of the present call, or else the home conversation."""
        return self.turn_dm or self.bindings.dm

    @property
    def bound_dms(self) -> tuple[str, ...]:
        """Return the conversations that the session serves now, the home conversation first."""
        return (self.bindings.dm, *self.further_dms)

    @property
    def dms(self) -> tuple[str, ...]:
        """Return the conversations that may get replies, the home conversation first."""
        return (*self.bound_dms, *self.former_dms)

    def in_conversation(self, dm: str) -> Self:
        """Return the lease for a call that the agent makes for a conversation; empty: for the home one.

        Raises InvalidRequest if the session has never served that conversation.
        """
        if dm in ("", self.bindings.dm):
            return self
        if dm not in self.dms:
            raise InvalidRequest(
                _("This session does not serve the conversation {dm!r}.").format(dm=dm[:64])
            )
        return replace(self, turn_dm=dm)


async def acquire_leases(
    connection: Connection, session_id: str, agent_id: str, resources: Sequence[str]
) -> None:
    """Lease all `resources` to a session, in the caller's transaction.

    Raises Conflict if one is taken, naming each holder and a way out; the caller must then roll back.
    """
    # sorted, so that two starts that want the same resources cannot deadlock
    rows = await connection.fetch(
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
    holders = await connection.fetch(
        "SELECT resource, agent_id, session_id FROM choir_control.leases WHERE resource = ANY($1) "
        "ORDER BY resource",
        sorted(missing),
    )
    holder_text = join(
        "; ",
        (_describe_holder(row["resource"], row["agent_id"], row["session_id"]) for row in holders),
    )
    raise Conflict(
        _("{agent_id} cannot start: {holder_text}.").format(
            agent_id=agent_id, holder_text=holder_text or _("a resource was just taken; try again")
        )
    )


def _describe_holder(resource: str, agent_id: str, session_id: str | None) -> str:
    """Describe who has a lease and what to do about it."""
    kind, name = resource.split(":", 1)
    if session_id is None:
        return _("{resource} is in use by {agent_id}; wait until that is done").format(
            resource=resource, agent_id=agent_id
        )
    return _(
        "{resource} is in use by agent {agent_id}; stop that agent (`choirctl agent stop {agent_id}`), or "
        "start this one with something other than {name} (--{kind})"
    ).format(resource=resource, agent_id=agent_id, name=name, kind=kind.replace("_", "-"))


@dataclass(frozen=True, slots=True)
class LeaseHolder:
    """Holder of an exclusive resource; without a session it is an operator's operation."""

    agent_id: str
    session_id: str | None


class LeaseStore:
    """Store of leases and of the current token of each session."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def find(self, session_id: str) -> Lease | None:
        """Return the lease of a session that has a valid token, or None."""
        row = await self._database.fetchrow(
            f"""
            SELECT session_id, agent_id, epoch, token_sha256, memory_mode, {COLUMNS}, (
                SELECT recall FROM choir_control.conversation_memory AS c WHERE c.dm = sessions.dm),
                ARRAY(SELECT f.dm FROM choir_control.session_conversations AS f
                      WHERE f.session_id = sessions.session_id AND f.unbound_at IS NULL
                      ORDER BY f.dm) AS further_dms,
                ARRAY(SELECT f.dm FROM choir_control.session_conversations AS f
                      WHERE f.session_id = sessions.session_id AND f.unbound_at IS NOT NULL
                      ORDER BY f.dm) AS former_dms,
                {served_conversations_sql("sessions")} AS served_dms
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
            bindings=current_bindings(row),
            settings_rev=row["settings_rev"],
            memory_mode=row["memory_mode"],
            recall=row["recall"],
            further_dms=tuple(row["further_dms"]),
            former_dms=tuple(row["former_dms"]),
            served_dms=tuple(row["served_dms"]),
        )

    async def was_valid(self, session_id: str, digest: bytes) -> bool:
        """Return whether this was the session's token in an earlier epoch."""
        exists = await self._database.fetchval(
            "SELECT true FROM choir_control.session_epochs "
            "WHERE session_id = $1 AND token_sha256 = $2",
            session_id,
            digest,
        )
        return bool(exists)

    async def holders(self, prefix: str) -> dict[str, LeaseHolder]:
        """Return the holders of the resources whose names start with `prefix`."""
        rows = await self._database.fetch(
            "SELECT resource, agent_id, session_id FROM choir_control.leases "
            "WHERE starts_with(resource, $1)",
            prefix,
        )
        return {row["resource"]: LeaseHolder(row["agent_id"], row["session_id"]) for row in rows}

    async def acquire_for_operation(self, resource: str, holder: str) -> bool:
        """Lease a resource for an operator's operation; return False if it is taken."""
        acquired = await self._database.fetchval(
            """
            INSERT INTO choir_control.leases (resource, session_id, agent_id)
            VALUES ($1, NULL, $2) ON CONFLICT (resource) DO NOTHING RETURNING true
            """,
            resource,
            holder,
        )
        return bool(acquired)

    async def release(self, resource: str) -> None:
        """Release a resource that `hold` leased."""
        await self._database.execute(
            "DELETE FROM choir_control.leases WHERE resource = $1 AND session_id IS NULL",
            resource,
        )

    async def delete_stale(self) -> int:
        """Delete invalid leases when control starts; return how many there were.

        A lease is valid as long as its session has a token. Operations have no session and ended with the
        previous control process.
        """
        rows = await self._database.fetch(
            """
            DELETE FROM choir_control.leases AS l
            WHERE NOT EXISTS (
                SELECT 1 FROM choir_control.sessions AS s
                WHERE s.session_id = l.session_id AND s.token_sha256 IS NOT NULL)
            RETURNING 1
            """
        )
        return len(rows)
