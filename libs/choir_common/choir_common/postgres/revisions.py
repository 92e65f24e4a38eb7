"""Alembic runner for the numbered files, for a schema of an earlier version.

Imported by `migrate` only when there is something to upgrade, because SQLAlchemy and Alembic are large. All
missing files are applied in one transaction, so a crash at any point leaves the schema unchanged.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import asyncpg
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from choir_common.errors import StartupError
from choir_common.i18n import _
from choir_common.postgres.pool import Database
from choir_common.postgres.schema_state import (
    LOCK,
    Migration,
    SchemaState,
    applied_table_sql,
    check_upgradable,
    migration_error,
    read_state,
)


async def upgrade(database: Database, schema: str, migrations: Sequence[Migration]) -> None:
    """Upgrade `schema` to the newest of `migrations`, or leave it unchanged.

    Raises StartupError if a file fails or the schema does not match the files.
    """
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=database.open_dedicated, poolclass=NullPool
    )
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade, schema, migrations)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, schema: str, migrations: Sequence[Migration]) -> None:
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({LOCK})")
    state: SchemaState = _raw(connection, lambda raw: read_state(raw, schema))
    check_upgradable(state, migrations)
    connection.exec_driver_sql(applied_table_sql(schema))
    scripts = NumberedScripts(schema, migrations)
    context = MigrationContext.configure(
        connection,
        opts={
            "version_table_schema": schema,
            "script": scripts,
            "fn": lambda now, _: list(scripts.steps(now)),
        },
    )
    if state.revision is None:
        # The schema predates Alembic: its table of applied files shows the revision.
        revisions = [
            migration.revision for migration in migrations if migration.name in state.applied
        ]
        context.stamp(scripts, revisions[-1] if revisions else "base")
    context.run_migrations(connection=connection)


class NumberedScripts(ScriptDirectory):
    """The numbered files as a chain of Alembic revisions."""

    def __init__(self, schema: str, migrations: Sequence[Migration]) -> None:
        """Describe the chain for one schema."""
        self._schema = schema
        self._migrations = tuple(migrations)
        super().__init__(str(Path(__file__).parent))

    def steps(self, now: Any) -> Iterable[RevisionStep]:
        """Return the steps from the revisions `now` to the newest."""
        return self._upgrade_revs("heads", now)

    def _load_revisions(self) -> Iterator[Script]:
        before: str | None = None
        for migration in self._migrations:
            yield Script(
                _module(self._schema, migration, before), migration.revision, migration.name
            )
            before = migration.revision


def _module(schema: str, migration: Migration, before: str | None) -> ModuleType:
    """Return a module like the one Alembic would import from a Python revision file."""

    def upgrade_step(connection: Connection) -> None:
        try:
            # asyncpg's own `execute`: SQLAlchemy's prepares statements, but a file contains several.
            _raw(connection, lambda raw: raw.execute(migration.for_schema(schema)))
        except asyncpg.PostgresError as error:
            raise migration_error(schema, migration, error) from error
        insert = f'INSERT INTO "{schema}".migrations (name, digest) VALUES ($1, $2)'  # noqa: S608 our own name
        _raw(connection, lambda raw: raw.execute(insert, migration.name, migration.digest))

    def downgrade_step(connection: Connection) -> None:
        raise StartupError(_("Downgrades are not supported: restore a backup."))

    module = ModuleType(f"choir_revision_{migration.revision}")
    vars(module).update(
        revision=migration.revision,
        down_revision=before,
        upgrade=upgrade_step,
        downgrade=downgrade_step,
    )
    return module


def _raw(connection: Connection, work: Any) -> Any:
    """Run `work` on the underlying asyncpg connection, in the same transaction."""
    return connection.connection.dbapi_connection.run_async(work)  # type: ignore[union-attr]
