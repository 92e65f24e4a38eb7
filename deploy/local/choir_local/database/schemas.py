"""Schemas of the database and their migrations. Called by `choirctl db`."""

from collections.abc import Sequence
from dataclasses import dataclass

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.postgres.schema_state import Migration, check_upgradable
from choir_local.database.store import DatabaseStore

OWN = (
    ("choir_control", "choir_control.migrations"),
    ("choir_memory", "choir_memory.migrations.shared"),
)
AGENT_FILES = "choir_memory.migrations.agent"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Migration status of one schema."""

    schema: str
    revision: str
    newest: str
    missing: tuple[str, ...]


async def schema_statuses(database: Database) -> list[SchemaStatus]:
    """Return the status of every schema; a schema that does not exist yet lacks all migrations.

    Raises StartupError when a newer Choir created one or its files were changed.
    """
    store = DatabaseStore(database)
    statuses = []
    for schema, migrations in await _all(store):
        state = await store.state(schema)
        check_upgradable(state, migrations)
        applied = [
            migration.revision for migration in migrations if migration.name in state.applied
        ]
        revision = state.revision or (applied[-1] if applied else "none")
        missing = tuple(state.missing_names(migrations))
        statuses.append(SchemaStatus(schema, revision, migrations[-1].revision, missing))
    return statuses


async def migrate_all(database: Database) -> dict[str, list[str]]:
    """Apply all missing migrations; return those applied, by schema.

    Raises StartupError; the schema that failed is unchanged, and those before it are up to date.
    """
    applied: dict[str, list[str]] = {}
    for schema, files in OWN:
        applied[schema] = await migrate(database, schema, read_migrations(files))
    for schema, migrations in (await _all(DatabaseStore(database)))[len(OWN) :]:
        applied[schema] = await migrate(database, schema, migrations)
    return applied


async def _all(store: DatabaseStore) -> list[tuple[str, Sequence[Migration]]]:
    agent_files = read_migrations(AGENT_FILES)
    own = [(schema, read_migrations(files)) for schema, files in OWN]
    return [*own, *((f"choir_{agent}", agent_files) for agent in await store.agents())]
