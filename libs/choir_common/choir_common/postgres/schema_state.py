"""Numbered migration files, and which of them a schema has. Used by `migrate` and `revisions`."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.postgres.pool import Connection

LOCK = 0x43686F6972
"""Key of the advisory lock; any number works, as long as all of Choir's migrations share it."""


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
        return [m.name for m in migrations if m.name not in self.applied]


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
            _(
                "The database schema {schema} was created by a newer version of Choir (it has "
                "{unknown}). Start that version, or restore a backup."
            ).format(schema=state.schema, unknown=", ".join(sorted(unknown)))
        )
    for number, migration in enumerate(migrations):
        if migration.name not in state.applied:
            later = [m.name for m in migrations[number:] if m.name in state.applied]
            if later:
                raise StartupError(
                    _(
                        "The database schema {schema} has {later} but not the earlier {migration}. Restore a "
                        "backup made by a release."
                    ).format(schema=state.schema, later=later[0], migration=migration.name)
                )
        elif state.applied[migration.name] != migration.digest:
            raise StartupError(
                _("Migration {migration} of {schema} was changed after it was applied.").format(
                    migration=migration.name, schema=state.schema
                )
            )


def applied_table_sql(schema: str) -> str:
    """Return the statement that creates the table of applied files, which Alembic does not provide."""
    return (
        f'CREATE TABLE IF NOT EXISTS "{schema}".migrations '
        "(name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz DEFAULT now())"
    )


def migration_error(schema: str, migration: Migration, error: Exception) -> StartupError:
    """Return the error to raise when a file fails."""
    return StartupError(
        _("Migration {migration} of {schema} failed: {error}").format(
            migration=migration.name, schema=schema, error=error
        )
    )


async def _exists(connection: Connection, schema: str, table: str) -> bool:
    return bool(
        await connection.fetchval("SELECT to_regclass($1) IS NOT NULL", f'"{schema}".{table}')
    )
