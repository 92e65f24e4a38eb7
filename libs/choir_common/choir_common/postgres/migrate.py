"""Bring a schema up to date: numbered `.sql` files, each applied once, each in one transaction.

Called by a service's `app` before it serves. Replicas that start together wait for each other on an
advisory lock. A file that was applied and then edited is refused.
"""

import hashlib
from dataclasses import dataclass
from importlib.resources import files

import asyncpg

from choir_common.errors import StartupError
from choir_common.postgres.pool import Connection, Database

# any fixed number will do, as long as all of Choir's migrations share it
_LOCK = 0x43686F6972


@dataclass(frozen=True, slots=True)
class Migration:
    """A numbered file: `0001_sessions.sql`."""

    name: str
    sql: str

    @property
    def digest(self) -> str:
        """Return the fingerprint that tells an edited file."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations(package: str) -> list[Migration]:
    """Return the `.sql` files of `package` in order of their names."""
    found = [entry for entry in files(package).iterdir() if entry.name.endswith(".sql")]
    return [Migration(f.name, f.read_text()) for f in sorted(found, key=lambda f: f.name)]


async def migrate(database: Database, schema: str, migrations: list[Migration]) -> list[str]:
    """Apply what `schema` lacks; return the names applied now.

    Raises StartupError when a file fails, was edited after it was applied, or is unknown here.
    """
    applied: list[str] = []
    async with database.transaction() as held:
        await held.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        done = await _applied(held, schema)
        unknown = done.keys() - {migration.name for migration in migrations}
        if unknown:
            raise StartupError(
                f"The database schema {schema} was made by a newer Choir (it has "
                f"{', '.join(sorted(unknown))}). Start that version, or restore a backup."
            )
        for migration in migrations:
            if migration.name not in done:
                await _apply(held, schema, migration)
                applied.append(migration.name)
            elif done[migration.name] != migration.digest:
                raise StartupError(
                    f"Migration {migration.name} of {schema} was changed after it was applied."
                )
    return applied


async def _applied(held: Connection, schema: str) -> dict[str, str]:
    await held.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
    await held.execute(
        f'CREATE TABLE IF NOT EXISTS "{schema}".migrations '
        "(name text PRIMARY KEY, digest text NOT NULL, applied_at timestamptz DEFAULT now())"
    )
    rows = await held.fetch(f'SELECT name, digest FROM "{schema}".migrations')  # noqa: S608 our own name
    return {row["name"]: row["digest"] for row in rows}


async def _apply(held: Connection, schema: str, migration: Migration) -> None:
    try:
        await held.execute(migration.sql.replace("{schema}", f'"{schema}"'))
    except asyncpg.PostgresError as error:
        raise StartupError(f"Migration {migration.name} of {schema} failed: {error}") from error
    await held.execute(
        f'INSERT INTO "{schema}".migrations (name, digest) VALUES ($1, $2)',  # noqa: S608 our own name
        migration.name,
        migration.digest,
    )
