"""Schema migrations: numbered `.sql` files, all missing ones applied in one transaction.

Called by each service's `app` before it serves, and by `choirctl db`. The files are Alembic revisions:
`0004_x.sql` is revision `0004` and follows `0003`. A new schema is created and stamped at once; a schema of
an earlier version is upgraded by Alembic (`revisions`), which is imported only then. An advisory lock
serializes replicas that start together. A file that was edited after it was applied is refused.
"""

import hashlib
import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import cast

import asyncpg

from choir_common.errors import StartupError
from choir_common.postgres.pool import Connection, Database

# Any fixed number works, as long as all of Choir's migrations share it.
LOCK = 0x43686F6972
# Alembic and SQLAlchemy take 25 MB and half a second; a service whose schema is current needs neither.
_REVISIONS = "choir_common.postgres.revisions"

Upgrade = Callable[[Database, str, "Sequence[Migration]"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Migration:
    """One numbered file, such as `0001_sessions.sql`."""

    name: str
    sql: str

    @property
    def revision(self) -> str:
        """Return the Alembic revision id: the file's number."""
        return self.name.partition("_")[0]

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the file, by which an edited file is detected."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def for_schema(self, schema: str) -> str:
        """Return the SQL with the schema's name filled in."""
        return self.sql.replace("{schema}", f'"{schema}"')


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The migrations that a schema has."""

    schema: str
    applied: Mapping[str, str]
    """Name and digest of each applied file."""
    revision: str | None
    """Its Alembic revision; None for a new schema, or one made before Choir used Alembic."""

    def missing_names(self, migrations: Sequence[Migration]) -> list[str]:
        """Return the names of the files that are not applied yet."""
        return [each.name for each in migrations if each.name not in self.applied]


def read_migrations(package: str) -> list[Migration]:
    """Return the `.sql` files of `package`, sorted by name."""
    found = [entry for entry in files(package).iterdir() if entry.name.endswith(".sql")]
    return [Migration(f.name, f.read_text()) for f in sorted(found, key=lambda f: f.name)]


async def migrate(database: Database, schema: str, migrations: Sequence[Migration]) -> list[str]:
    """Apply the files that `schema` lacks, all or none; return the names applied now.

    Raises StartupError if a file fails, was edited after it was applied, or is unknown to this version.
    """
    async with database.transaction() as held:
        await held.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        state = await read_state(held, schema)
        missing = state.missing_names(migrations)
        if not state.applied:
            await _create_schema(held, schema, migrations)
            return missing
        check_upgradable(state, migrations)
        if not missing and state.revision == migrations[-1].revision:
            return []
    upgrade = cast(Upgrade, importlib.import_module(_REVISIONS).upgrade)
    await upgrade(database, schema, migrations)
    return missing


async def read_state(connection: Connection, schema: str) -> SchemaState:
    """Return which migrations a schema has; none if it does not exist."""
    applied: dict[str, str] = {}
    if await _exists(connection, schema, "migrations"):
        rows = await connection.fetch(f'SELECT name, digest FROM "{schema}".migrations')  # noqa: S608 our own name
        applied = {row["name"]: row["digest"] for row in rows}
    stamp: str | None = None
    if await _exists(connection, schema, "alembic_version"):
        stamp = await connection.fetchval(f'SELECT version_num FROM "{schema}".alembic_version')  # noqa: S608
    return SchemaState(schema, applied, stamp)


def check_upgradable(state: SchemaState, migrations: Sequence[Migration]) -> None:
    """Reject a schema that cannot be upgraded with these files.

    Raises StartupError.
    """
    unknown = state.applied.keys() - {migration.name for migration in migrations}
    if unknown:
        raise StartupError(
            f"The database schema {state.schema} was made by a newer Choir (it has "
            f"{', '.join(sorted(unknown))}). Start that version, or restore a backup."
        )
    for number, migration in enumerate(migrations):
        if migration.name not in state.applied:
            later = [each.name for each in migrations[number:] if each.name in state.applied]
            if later:
                raise StartupError(
                    f"The database schema {state.schema} has {later[0]} without {migration.name}, "
                    "which comes before it. Restore a backup made by a release."
                )
        elif state.applied[migration.name] != migration.digest:
            raise StartupError(
                f"Migration {migration.name} of {state.schema} was changed after it was applied."
            )


def applied_table_sql(schema: str) -> str:
    """Return the statement that creates the table of applied files, which Alembic does not provide."""
    return (
        f'CREATE TABLE IF NOT EXISTS "{schema}".migrations '
        "(name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz DEFAULT now())"
    )


def migration_error(schema: str, migration: Migration, error: Exception) -> StartupError:
    """Return the error to raise when a file fails."""
    return StartupError(f"Migration {migration.name} of {schema} failed: {error}")


async def _create_schema(held: Connection, schema: str, migrations: Sequence[Migration]) -> None:
    """Create a new schema at the newest version and stamp it."""
    await held.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await held.execute(applied_table_sql(schema))
    for migration in migrations:
        try:
            await held.execute(migration.for_schema(schema))
        except asyncpg.PostgresError as error:
            raise migration_error(schema, migration, error) from error
    await held.executemany(
        f'INSERT INTO "{schema}".migrations (name, digest) VALUES ($1, $2)',  # noqa: S608 our own name
        [(migration.name, migration.digest) for migration in migrations],
    )
    # The same table that Alembic would create.
    await held.execute(
        f'CREATE TABLE "{schema}".alembic_version (version_num varchar(32) NOT NULL '
        "CONSTRAINT alembic_version_pkc PRIMARY KEY)"
    )
    await held.execute(
        f'INSERT INTO "{schema}".alembic_version VALUES ($1)',  # noqa: S608 our own name
        migrations[-1].revision,
    )


async def _exists(held: Connection, schema: str, table: str) -> bool:
    return bool(await held.fetchval("SELECT to_regclass($1) IS NOT NULL", f'"{schema}".{table}'))
