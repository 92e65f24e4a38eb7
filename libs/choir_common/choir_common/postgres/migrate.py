"""Schema migrations: numbered `.sql` files, all missing ones applied in one transaction.

Called by each service's `app` before it serves, and by `choirctl db`. The files are Alembic revisions:
`0004_x.sql` is revision `0004` and follows `0003`. A new schema is created and stamped at once; a schema of
an earlier version is upgraded by Alembic (`revisions`), which is imported only then. An advisory lock
serializes replicas that start together. A file that was edited after it was applied is refused.
"""

from collections.abc import Sequence
from importlib.resources import files

import asyncpg

from choir_common.postgres.pool import Connection, Database
from choir_common.postgres.schema_state import (
    LOCK,
    Migration,
    applied_table_sql,
    check_upgradable,
    migration_error,
    read_state,
)


def read_migrations(package: str) -> list[Migration]:
    """Return the `.sql` files of `package`, sorted by name."""
    sql_files = [entry for entry in files(package).iterdir() if entry.name.endswith(".sql")]
    return [Migration(f.name, f.read_text()) for f in sorted(sql_files, key=lambda f: f.name)]


async def migrate(database: Database, schema: str, migrations: Sequence[Migration]) -> list[str]:
    """Apply the files that `schema` lacks, all or none; return the names applied now.

    Raises StartupError if a file fails, was edited after it was applied, or is unknown to this version.
    """
    async with database.transaction() as connection:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        state = await read_state(connection, schema)
        missing = state.missing_names(migrations)
        if not state.applied:
            await _create_schema(connection, schema, migrations)
            return missing
        check_upgradable(state, migrations)
        if not missing and state.revision == migrations[-1].revision:
            return []
    # Alembic and SQLAlchemy take 25 MB and half a second; a service whose schema is current needs neither.
    from choir_common.postgres.revisions import upgrade  # noqa: PLC0415 - only an upgrade needs it

    await upgrade(database, schema, migrations)
    return missing


async def _create_schema(
    connection: Connection, schema: str, migrations: Sequence[Migration]
) -> None:
    """Create a new schema at the newest version and stamp it."""
    await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    for migration in migrations:
        try:
            await connection.execute(migration.for_schema(schema))
        except asyncpg.PostgresError as error:
            raise migration_error(schema, migration, error) from error
    await connection.execute(stamp_sql(schema, migrations))


def stamp_sql(schema: str, migrations: Sequence[Migration]) -> str:
    """Return the statements that record a new schema as having all of `migrations`."""
    # names and digests are our own: no quotes in them
    applied = ", ".join(f"('{migration.name}', '{migration.digest}')" for migration in migrations)
    return f"""
{applied_table_sql(schema)};
INSERT INTO "{schema}".migrations (name, digest) VALUES {applied};
-- the same table that Alembic would create
CREATE TABLE "{schema}".alembic_version (
    version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY);
INSERT INTO "{schema}".alembic_version VALUES ('{migrations[-1].revision}')
"""  # noqa: S608 our own names
