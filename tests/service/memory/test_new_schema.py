"""A new agent's schema is created by one script that is equal to all migrations together."""

import pytest

from choir_common.errors import Conflict
from choir_common.postgres.migrate import migrate, read_migrations
from choir_common.postgres.pool import Database
from choir_common.postgres.schema_state import read_state
from choir_memory.embedding.model_store import register_model
from choir_memory.schema.store import SpaceStore

AGENT = read_migrations("choir_memory.migrations.agent")
# columns in order with type, storage and default; constraints; indexes; triggers; functions; grants
SHAPE = """
SELECT 'column' AS kind, c.relname::text AS relation, concat_ws(' ', a.attnum, a.attname,
       format_type(a.atttypid, a.atttypmod), a.attstorage, a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid)) AS definition
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = $1::text::regnamespace AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind = 'r'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname || ' ' || pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = $1::text::regnamespace
UNION ALL SELECT 'index', tablename, indexdef FROM pg_indexes WHERE schemaname = $1::text
UNION ALL SELECT 'trigger', c.relname, pg_get_triggerdef(t.oid) FROM pg_trigger t
JOIN pg_class c ON c.oid = t.tgrelid
WHERE c.relnamespace = $1::text::regnamespace AND NOT t.tgisinternal
UNION ALL SELECT 'function', proname, concat_ws(' ', pg_get_functiondef(oid), proacl::text) FROM pg_proc
WHERE pronamespace = $1::text::regnamespace
UNION ALL SELECT 'grants', relname, relacl::text FROM pg_class
WHERE relnamespace = $1::text::regnamespace AND relkind = 'r'
UNION ALL SELECT 'schema', nspname, nspacl::text FROM pg_namespace WHERE nspname = $1::text
"""


async def shape_of(database: Database, schema: str) -> list[str]:
    rows = await database.fetch(SHAPE, schema)
    return sorted(" | ".join(map(str, row)).replace(schema, "S") for row in rows)


@pytest.fixture
async def store(database: Database) -> SpaceStore:
    made = SpaceStore(database)
    await made.migrate_shared_schema()
    await register_model(database, "some-model", 384, "here")
    return made


async def test_a_new_schema_equals_a_migrated_one(store: SpaceStore, database: Database) -> None:
    await store.create("new")
    await database.execute("CREATE ROLE choir_migrated; GRANT choir_migrated TO CURRENT_USER")
    await migrate(database, "choir_migrated", AGENT)
    expected = await shape_of(database, "choir_migrated")
    assert await shape_of(database, "choir_new") == expected
    assert len(expected) > 100
    async with database.connection() as connection:
        state = await read_state(connection, "choir_new")
    assert state.missing_names(AGENT) == []
    assert state.revision == AGENT[-1].revision
    assert await migrate(database, "choir_new", AGENT) == []
    assert await store.list_agents() == ["new"]


async def test_a_role_or_a_schema_that_exists_is_completed(
    store: SpaceStore, database: Database
) -> None:
    await store.create("complete")
    await store.create("complete")
    expected = await shape_of(database, "choir_complete")
    await database.execute("CREATE ROLE choir_half; GRANT choir_half TO CURRENT_USER")
    await store.create("half")
    assert await shape_of(database, "choir_half") == expected
    await database.execute('CREATE SCHEMA "choir_bare"')
    await store.create("bare")
    assert await shape_of(database, "choir_bare") == expected


async def test_a_powerful_role_is_refused(store: SpaceStore, database: Database) -> None:
    await database.execute("CREATE ROLE choir_strong LOGIN")
    with pytest.raises(Conflict, match="choir_strong"):
        await store.create("strong")
    assert await store.list_agents() == []
