"""Spaces of thousands of documents, made in the database itself."""

from choir_memory.schema.store import qualified
from tests.service.memory.conftest import Room

_DOCUMENTS = """
INSERT INTO {schema}.memory_documents (id, session_id, tier, chunk_index, text, tsv, tokens, speaker)
SELECT md5(n::text)::uuid, 'ses_' || n / 50, 'mid_term', n, format('common topic%s rare%s', n % 40, n),
       format('''common'':1 ''topic%s'':2 ''rare%s'':3', n % 40, n)::tsvector, 3, 'speaker' || n % 100
FROM generate_series(1, $1::int) AS n
"""
_VECTORS = """
INSERT INTO {schema}.memory_embeddings (document_id, model, part, embedding)
SELECT md5(n::text)::uuid, (SELECT id FROM choir_memory.embedding_models WHERE state = 'active'), 0,
       (SELECT array_agg(sin(n * k * 0.731 + k) ORDER BY k) FROM generate_series(1, 8) AS k)::real[]
       ::public.vector::public.halfvec
FROM generate_series(1, $1::int) AS n
"""


async def grow(room: Room, documents: int) -> None:
    """Give agent `main` so many turns, with vectors, as if they had come one by one."""
    await room.spaces.ensure("main")
    for statement in (_DOCUMENTS, _VECTORS):
        await room.database.execute(qualified(statement, "main"), documents)
    await room.database.execute("ANALYZE choir_main.memory_documents, choir_main.memory_embeddings")


async def vector_indexes(room: Room) -> dict[str, bool]:
    """Return the vector indexes of agent `main`, and whether each is valid."""
    rows = await room.database.fetch(
        "SELECT c.relname::text AS name, i.indisvalid FROM pg_index i "
        "JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE i.indrelid = 'choir_main.memory_embeddings'::regclass AND i.indexprs IS NOT NULL"
    )
    return {row["name"]: row["indisvalid"] for row in rows}
