"""Sizes and indexes of the vector tables, on a dedicated connection.

Indexes are built CONCURRENTLY, so writers and searches continue meanwhile. A build that is interrupted
leaves an invalid index, which the next pass drops.
"""

from choir_common.postgres.pool import DedicatedConnection
from choir_memory.maintenance.index_plan import IndexedModel, VectorIndex, VectorTable, index_name
from choir_memory.schema.store import qualified

HNSW_M = 16
HNSW_EF_CONSTRUCTION = 128
"""`ef_construction` of HNSW: twice pgvector's default, for a recall above .98 among similar vectors."""

_TRY_LOCK = "SELECT pg_try_advisory_lock($1)"
_MODELS = """
SELECT id, dimensions FROM choir_memory.embedding_models WHERE state <> 'retired' ORDER BY id
"""
# Row counts from Postgres' own statistics. Asking for a table's size would open the table, and a
# connection caches everything it has opened: 350 MB for ten thousand agents.
_TABLES = """
SELECT s.agent_id, c.relname::text AS name, i.names, i.valid,
       greatest(c.reltuples, pg_stat_get_live_tuples(c.oid))::bigint AS rows
FROM choir_memory.spaces s
JOIN pg_namespace n ON n.nspname = 'choir_' || s.agent_id
JOIN pg_class c ON c.relnamespace = n.oid
    AND c.relname IN ('memory_embeddings', 'knowledge_embeddings') AND c.relkind = 'r'
CROSS JOIN LATERAL (
    SELECT array_agg(x.relname::text ORDER BY x.relname) AS names,
           array_agg(i.indisvalid ORDER BY x.relname) AS valid
    FROM pg_index i JOIN pg_class x ON x.oid = i.indexrelid
    WHERE i.indrelid = c.oid AND x.relname LIKE c.relname || '\\_hnsw\\_%'
) AS i
WHERE i.names IS NOT NULL OR c.reltuples >= $1 OR pg_stat_get_live_tuples(c.oid) >= $1
ORDER BY s.agent_id, c.relname
"""
_ENOUGH = """
SELECT count(*) >= $2 FROM (SELECT FROM {schema}.{table} WHERE model = $1 LIMIT $2) AS found
"""
_MAKE = """
CREATE INDEX CONCURRENTLY {index} ON {schema}.{table}
USING hnsw ((embedding::public.halfvec({dimensions})) public.halfvec_cosine_ops)
WITH (m = {links}, ef_construction = {candidates}) WHERE model = {model}
"""
_DROP = "DROP INDEX CONCURRENTLY IF EXISTS {schema}.{index}"
# Autovacuum runs ANALYZE after a minute or two, but not on tables that were filled while it was off.
_UNKNOWN = """
SELECT s.agent_id, c.relname::text AS name
FROM choir_memory.spaces s
JOIN pg_namespace n ON n.nspname = 'choir_' || s.agent_id
JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
    AND c.relname IN ('memory_documents', 'knowledge_documents')
WHERE c.reltuples < 0 AND pg_stat_get_live_tuples(c.oid) >= $1
ORDER BY s.agent_id, c.relname
"""


async def try_lock(connection: DedicatedConnection, lock: int) -> bool:
    """Take the upkeep lock until this connection ends; return whether it was free."""
    return bool(await connection.fetchval(_TRY_LOCK, lock))


async def set_build_memory(connection: DedicatedConnection, megabytes: int) -> None:
    """Allow this connection `megabytes` of memory for index builds."""
    await connection.execute(f"SET maintenance_work_mem = '{megabytes}MB'")
    # parallel workers share memory through /dev/shm, which is 64 MB in a container: the build would fail
    await connection.execute("SET max_parallel_maintenance_workers = 0")


async def read_models(connection: DedicatedConnection) -> list[IndexedModel]:
    """Return the models that serve or are being built."""
    return [IndexedModel(row["id"], row["dimensions"]) for row in await connection.fetch(_MODELS)]


async def read_tables(connection: DedicatedConnection, index_from: int) -> list[VectorTable]:
    """Return the vector tables that may need an index, and those that have one."""
    rows = await connection.fetch(_TABLES, index_from)
    return [
        VectorTable(
            row["agent_id"],
            row["name"],
            row["rows"],
            [
                VectorIndex(*fields)
                for fields in zip(row["names"] or (), row["valid"] or (), strict=True)
            ],
        )
        for row in rows
    ]


async def has_enough_vectors(
    connection: DedicatedConnection, table: VectorTable, model: IndexedModel, index_from: int
) -> bool:
    """Return whether the table contains at least `index_from` vectors of this model."""
    sql = qualified(_ENOUGH, table.agent_id).replace("{table}", table.table)
    return bool(await connection.fetchval(sql, model.model_id, index_from))


async def create_index(
    connection: DedicatedConnection, table: VectorTable, model: IndexedModel
) -> None:
    """Build the index; may take minutes."""
    statement = _MAKE.format(
        index=index_name(table.table, model),
        schema="{schema}",
        table=table.table,
        dimensions=model.dimensions,
        links=HNSW_M,
        candidates=HNSW_EF_CONSTRUCTION,
        model=model.model_id,
    )
    await connection.execute(qualified(statement, table.agent_id))


async def drop_index(connection: DedicatedConnection, table: VectorTable, name: str) -> None:
    """Drop an index, after the queries that use it have finished."""
    await connection.execute(qualified(_DROP, table.agent_id).replace("{index}", name))


async def analyze_tables_without_statistics(
    connection: DedicatedConnection, least_rows: int
) -> int:
    """ANALYZE the tables with at least `least_rows` rows that have no statistics; return how many there
    were."""
    rows = await connection.fetch(_UNKNOWN, least_rows)
    for row in rows:
        await connection.execute(qualified(f"ANALYZE {{schema}}.{row['name']}", row["agent_id"]))
    return len(rows)
