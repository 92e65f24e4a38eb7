"""Schemas and roles of agents in Postgres, and transactions under an agent's role."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib.resources import files

from choir_common.errors import Conflict, InvalidRequest, NotFound
from choir_common.i18n import _
from choir_common.ids import AGENT_ID_RULE, is_agent_id
from choir_common.postgres.migrate import migrate, read_migrations, stamp_sql
from choir_common.postgres.pool import Connection, Database
from choir_common.postgres.schema_state import LOCK as MIGRATION_LOCK

SHARED_SCHEMA = "choir_memory"
# Names of control's and this service's own schemas; an agent with such a name would share them.
RESERVED_AGENT_IDS = frozenset({"control", "memory"})

_SHARED_FILES = "choir_memory.migrations.shared"
_AGENT_FILES = "choir_memory.migrations.agent"
_MIGRATIONS, _NEW_AGENT_FILE = "choir_memory.migrations", "new_agent.sql"
# serialises role creation: CREATE ROLE has no IF NOT EXISTS
_ROLE_LOCK = 0x526F6C65

_TAKE_LOCKS = f"""
SELECT pg_advisory_xact_lock({_ROLE_LOCK}); SELECT pg_advisory_xact_lock({MIGRATION_LOCK})
"""
# no row if there is neither
_FIND_ROLE_AND_SCHEMA = """
SELECT r.rolname IS NOT NULL AS has_role,
       rolsuper OR rolcanlogin OR rolcreaterole OR rolcreatedb OR rolbypassrls AS powerful
FROM (SELECT rolname, rolsuper, rolcanlogin, rolcreaterole, rolcreatedb, rolbypassrls
      FROM pg_catalog.pg_roles WHERE rolname = $1) AS r
FULL JOIN (SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname = $1) AS n ON nspname = rolname
"""
_MAKE_ROLE = """
CREATE ROLE {schema} NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT;
GRANT {schema} TO CURRENT_USER
"""
_LIST_SPACE = "INSERT INTO choir_memory.spaces (agent_id) VALUES ($1) ON CONFLICT DO NOTHING"
_PLAN_ONCE = "SET LOCAL plan_cache_mode = force_generic_plan"
_TAKE_ROLE = "SET LOCAL ROLE {schema}"


def schema_name(agent_id: str) -> str:
    """Return `choir_<agent_id>`, the name of the agent's schema and role; it must be quoted in SQL.

    Raises InvalidRequest for a string that is not a valid agent id, and for a reserved name.
    """
    if not is_agent_id(agent_id):
        raise InvalidRequest(
            _("{agent_id!r} is not a valid agent id: {agent_id_rule}.").format(
                agent_id=agent_id[:60], agent_id_rule=AGENT_ID_RULE
            )
        )
    if agent_id in RESERVED_AGENT_IDS:
        raise InvalidRequest(
            _(
                "The agent id {agent_id} is reserved: Choir has its own tables in that schema."
            ).format(agent_id=agent_id)
        )
    return f"choir_{agent_id}"


def qualified(statement: str, agent_id: str) -> str:
    """Return `statement` with `{schema}` replaced by the agent's quoted schema."""
    return statement.replace("{schema}", f'"{schema_name(agent_id)}"')


class SpaceStore:
    """The agents' schemas and roles, and the list of them in `choir_memory.spaces`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._files = read_migrations(_AGENT_FILES)
        self._definition = files(_MIGRATIONS).joinpath(_NEW_AGENT_FILE).read_text()

    async def migrate_shared_schema(self) -> None:
        """Migrate the shared schema; raises StartupError when that fails."""
        await migrate(self._database, SHARED_SCHEMA, read_migrations(_SHARED_FILES))
        # the first migration creates the extension, whose types older connections do not know
        await self._database.expire_connections()

    async def exists(self, agent_id: str) -> bool:
        """Return whether this agent has a space."""
        sql = "SELECT EXISTS (SELECT FROM choir_memory.spaces WHERE agent_id = $1)"
        return bool(await self._database.fetchval(sql, agent_id))

    async def list_agents(self) -> list[str]:
        """Return the ids of all agents that have a space."""
        sql = "SELECT agent_id FROM choir_memory.spaces ORDER BY agent_id"
        return [row["agent_id"] for row in await self._database.fetch(sql)]

    async def has_any(self) -> bool:
        """Return whether any agent has a space."""
        return bool(
            await self._database.fetchval("SELECT EXISTS (SELECT FROM choir_memory.spaces)")
        )

    async def create(self, agent_id: str) -> None:
        """Create or migrate the agent's role and schema; idempotent.

        Raises Conflict when a role with that name exists and has more rights than an agent's role
        may have.
        """
        name = schema_name(agent_id)
        async with self._database.transaction() as connection:
            await connection.execute(_TAKE_LOCKS)
            existing = await connection.fetchrow(_FIND_ROLE_AND_SCHEMA, name)
            if existing is None:
                await connection.execute(self._new_space_sql(agent_id))
                await connection.execute(_LIST_SPACE, agent_id)
                return
            if existing["powerful"]:
                raise Conflict(
                    _(
                        "The database role {name} exists and has more rights than an agent's role may have. "
                        "Rename the agent {agent_id} or the role."
                    ).format(name=name, agent_id=agent_id)
                )
            if not existing["has_role"]:
                await connection.execute(qualified(_MAKE_ROLE, agent_id))
        await migrate(self._database, name, self._files)
        # listed only after its migration, so that every listed space can be used
        await self._database.execute(_LIST_SPACE, agent_id)

    def _new_space_sql(self, agent_id: str) -> str:
        """Return one script that creates the role and the schema: each statement would be a round trip."""
        stamp = stamp_sql(schema_name(agent_id), self._files)
        parts = (_MAKE_ROLE, "CREATE SCHEMA {schema}", self._definition, stamp)
        return qualified(";".join(parts), agent_id)


@contextlib.asynccontextmanager
async def agent_transaction(
    database: Database,
    agent_id: str,
    *,
    plan_once: bool = False,
    local_settings: Sequence[str] = (),
) -> AsyncIterator[Connection]:
    """Open a transaction in which only the agent's own schema is accessible (docs/design/memory.md rule 2).

    `plan_once` forces generic query plans, for statements with a best plan that does not depend on the
    arguments; it saves a millisecond per search. `local_settings` are `SET LOCAL` statements.
    """
    # one statement, because each one costs a round trip
    begin = [
        "BEGIN",
        qualified(_TAKE_ROLE, agent_id),
        *([_PLAN_ONCE] if plan_once else []),
        *local_settings,
    ]
    async with database.schema_transaction(schema_name(agent_id), "; ".join(begin)) as connection:
        yield connection


@contextlib.asynccontextmanager
async def admin_read_transaction(
    database: Database,
    agent_id: str | None = None,
    *,
    plan_once: bool = False,
    local_settings: Sequence[str] = (),
) -> AsyncIterator[Connection]:
    """Open a read-only transaction that can read every agent's schema: the admin path.

    Pass `agent_id` when one agent's schema is read; `plan_once` and `local_settings` as in
    `agent_transaction`.
    """
    schema = SHARED_SCHEMA if agent_id is None else schema_name(agent_id)
    begin = ["BEGIN READ ONLY", *([_PLAN_ONCE] if plan_once else []), *local_settings]
    async with database.schema_transaction(schema, "; ".join(begin)) as connection:
        yield connection


async def take_agent_role(connection: Connection, agent_id: str) -> None:
    """Take the agent's role for the rest of this transaction, or until `resume_service_role`."""
    await connection.execute(qualified(_TAKE_ROLE, agent_id))


async def resume_service_role(connection: Connection) -> None:
    """Return to the service's own role, the only one that may write to `choir_memory`."""
    await connection.execute("RESET ROLE")


class SpaceRegistry:
    """Registry of agents' schemas; creates and migrates each on its first use in this process."""

    def __init__(self, store: SpaceStore) -> None:
        self._store = store
        self._ready: set[str] = set()
        # replicas are serialised by a Postgres lock; requests of this process by this one
        self._making = asyncio.Lock()

    async def open(self) -> None:
        """Migrate the shared schema; raises StartupError when that fails."""
        await self._store.migrate_shared_schema()

    async def ensure(self, agent_id: str) -> None:
        """Create the agent's space if it does not exist, and migrate it if it is older than this code."""
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        async with self._making:
            if agent_id not in self._ready:
                await self._store.create(agent_id)
                self._ready.add(agent_id)

    async def any(self) -> bool:
        """Return whether any agent has a space."""
        return await self._store.has_any()

    async def require(self, agent_id: str) -> None:
        """Raise NotFound unless the agent has a space.

        For reads of another agent's memory, which must not create a space.
        """
        schema_name(agent_id)
        if agent_id in self._ready:
            return
        if not await self._store.exists(agent_id):
            raise NotFound(
                _("There is no memory for the agent {agent_id}.").format(agent_id=agent_id)
            )
        await self.ensure(agent_id)
