"""Comparison of control's table models with a migrated database, and SQL for what differs.

Run as `python -m tests.support.schema_models TOPIC` (`make migration TOPIC=name`): writes the next numbered
file that brings the database in line with `choir_control.migrations.tables`.
"""

import asyncio
import io
import sys
from pathlib import Path
from typing import Any

from alembic.autogenerate import produce_migrations
from alembic.operations import Operations
from alembic.operations.ops import MigrateOperation, OpContainer
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_control.migrations.tables import METADATA, SCHEMA
from tests.support.postgres import PASSWORD, running_postgres

MIGRATIONS = "choir_control.migrations"
# made by `migrate` for its own records
BOOKKEEPING = {"migrations", "alembic_version"}


async def find_differences(database: Database) -> list[MigrateOperation]:
    """Return the operations that turn the database's schema into the models; empty if they are equal."""
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=database.open_dedicated, poolclass=NullPool
    )
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_compare)
    finally:
        await engine.dispose()


def render_sql(operations: list[MigrateOperation]) -> str:
    """Return the operations as SQL with `{schema}` in place of the schema's name."""
    buffer = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": buffer}
    )
    runner = Operations(context)
    for operation in operations:
        runner.invoke(operation)
    return buffer.getvalue().replace(f"{SCHEMA}.", "{schema}.")


def _compare(connection: Connection) -> list[MigrateOperation]:
    options: dict[str, Any] = {
        "compare_type": True,
        "compare_server_default": True,
        "include_schemas": True,
        "include_name": _is_ours,
    }
    context = MigrationContext.configure(connection, opts=options)
    upgrade = produce_migrations(context, METADATA).upgrade_ops
    return [] if upgrade is None else list(_flatten(upgrade))


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    if kind == "schema":
        return name == SCHEMA
    return not (kind == "table" and name in BOOKKEEPING)


def _flatten(container: OpContainer) -> list[MigrateOperation]:
    flat: list[MigrateOperation] = []
    for operation in container.ops:
        flat.extend(_flatten(operation) if isinstance(operation, OpContainer) else [operation])
    return flat


async def write_migration(topic: str) -> Path | None:
    """Write the next numbered SQL file and return its path; None if nothing differs."""
    files = read_migrations(MIGRATIONS)
    async with running_postgres() as server:
        async with Database(server.dsn, PASSWORD, size=2, application="migration") as database:
            await migrate(database, SCHEMA, files)
            sql = render_sql(await find_differences(database))
    if not sql:
        return None
    directory = Path(sys.modules[MIGRATIONS].__path__[0])
    path = directory / f"{int(files[-1].revision) + 1:04d}_{topic}.sql"
    await asyncio.to_thread(path.write_text, sql)
    return path


if __name__ == "__main__":
    written = asyncio.run(write_migration(sys.argv[1]))
    print(written or "The tables are as their models say: there is nothing to migrate.")
