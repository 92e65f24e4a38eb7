"""Bring a schema up to date: numbered `.sql` files, all that are missing in one transaction.

Called by a service's `app` before it serves, and by `choirctl db`. The files are Alembic's revisions:
`0004_x.sql` is revision `0004` and follows `0003`. A schema that is new is made at once and stamped; one that
was made by an earlier version goes through Alembic (`revisions`), which is loaded only then. Replicas that
start together wait for each other on an advisory lock. A file that was applied and then edited is refused.
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

# any fixed number will do, as long as all of Choir's migrations share it
LOCK = 0x43686F6972
# Alembic with SQLAlchemy takes 25 MB and half a second, which a service that is up to date never needs
_REVISIONS = "choir_common.postgres.revisions"

Upgrade = Callable[[Database, str, "Sequence[Migration]"], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered file: `0001_sessions.sql`."""

    name: str
    sql: str

    @property
    def revision(self) -> str:
        """Return what Alembic calls it."""
        return self.name.partition("_")[0]

    @property
    def digest(self) -> str:
        """Return the fingerprint that tells an edited file."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def for_schema(self, schema: str) -> str:
        """Return the statements with their schema filled in."""
        return self.sql.replace("{schema}", f'"{schema}"')


@dataclass(frozen=True, slots=True)
class SchemaState:
    """How far a schema is."""

    schema: str
    applied: Mapping[str, str]
    """Name and digest of each file it has."""
    stamp: str | None
    """The revision that Alembic knows it by; none if it is new, or older than Alembic here."""

    def missing(self, migrations: Sequence[Migration]) -> list[str]:
        """Return the names it lacks."""
        return [each.name for each in migrations if each.name not in self.applied]


def read_migrations(package: str) -> list[Migration]:
    """Return the `.sql` files of `package` in order of their names."""
    found = [entry for entry in files(package).iterdir() if entry.name.endswith(".sql")]
    return [Migration(f.name, f.read_text()) for f in sorted(found, key=lambda f: f.name)]


async def migrate(database: Database, schema: str, migrations: Sequence[Migration]) -> list[str]:
    """Apply what `schema` lacks, all of it or nothing; return the names applied now.

    Raises StartupError when a file fails, was edited after it was applied, or is unknown here.
    """
    async with database.transaction() as held:
        await held.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        state = await read_state(held, schema)
        missing = state.missing(migrations)
        if not state.applied:
            await _make(held, schema, migrations)
            return missing
        check(state, migrations)
        if not missing and state.stamp == migrations[-1].revision:
            return []
    upgrade = cast(Upgrade, importlib.import_module(_REVISIONS).upgrade)
    await upgrade(database, schema, migrations)
    return missing


async def read_state(held: Connection, schema: str) -> SchemaState:
    """Return how far a schema is; one that does not exist has nothing."""
    applied: dict[str, str] = {}
    if await _exists(held, schema, "migrations"):
        rows = await held.fetch(f'SELECT name, digest FROM "{schema}".migrations')  # noqa: S608 our own name
        applied = {row["name"]: row["digest"] for row in rows}
    stamp: str | None = None
    if await _exists(held, schema, "alembic_version"):
        stamp = await held.fetchval(f'SELECT version_num FROM "{schema}".alembic_version')  # noqa: S608
    return SchemaState(schema, applied, stamp)


def check(state: SchemaState, migrations: Sequence[Migration]) -> None:
    """Refuse a schema that these files cannot go on from.

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


def record_table(schema: str) -> str:
    """Return the statement that makes the record of what was applied, which Alembic does not keep."""
    return (
        f'CREATE TABLE IF NOT EXISTS "{schema}".migrations '
        "(name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz DEFAULT now())"
    )


def explain(schema: str, migration: Migration, error: Exception) -> StartupError:
    """Return what is told when a file fails."""
    return StartupError(f"Migration {migration.name} of {schema} failed: {error}")


async def _make(held: Connection, schema: str, migrations: Sequence[Migration]) -> None:
    """Make a new schema as the newest version has it, and stamp it."""
    await held.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await held.execute(record_table(schema))
    for migration in migrations:
        try:
            await held.execute(migration.for_schema(schema))
        except asyncpg.PostgresError as error:
            raise explain(schema, migration, error) from error
    await held.executemany(
        f'INSERT INTO "{schema}".migrations (name, digest) VALUES ($1, $2)',  # noqa: S608 our own name
        [(migration.name, migration.digest) for migration in migrations],
    )
    # the very table Alembic would make
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
