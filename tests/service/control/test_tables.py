"""The table models say what the migrations make, and a new column becomes a migration."""

from sqlalchemy import Boolean, Column, false

from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_control.migrations.tables import METADATA, SCHEMA
from tests.support.postgres import PASSWORD
from tests.support.schema_models import MIGRATIONS, find_differences, render_sql


async def test_models_equal_the_migrated_database_and_a_new_column_becomes_sql(
    postgres: str,
) -> None:
    async with Database(postgres, PASSWORD, size=2, application="test") as database:
        await migrate(database, SCHEMA, read_migrations(MIGRATIONS))
        assert render_sql(await find_differences(database)) == ""
        sessions = METADATA.tables[f"{SCHEMA}.sessions"]
        pinned = Column("pinned", Boolean, nullable=False, server_default=false())
        sessions.append_column(pinned)
        try:
            sql = render_sql(await find_differences(database))
        finally:
            sessions._columns.remove(pinned)
    assert "ALTER TABLE {schema}.sessions ADD COLUMN pinned BOOLEAN DEFAULT false NOT NULL" in sql
