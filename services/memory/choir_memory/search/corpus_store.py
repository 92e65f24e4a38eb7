"""What is known about a space without reading it: how large it is, and how common its common words are.

Called by `corpora`, on a connection that may read the agent's schema. All of it is Postgres' own bookkeeping:
ANALYZE keeps it, which upkeep (`growth`) sees to for spaces that grow.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.postgres.pool import Connection
from choir_memory.schema.naming import schema_name
from choir_memory.search.scope_store import Scope

LARGE = 5_000
"""Documents from which on a search does not read a space whole: two or three milliseconds a thousand."""
SAMPLED_PAGES = 60
"""Pages that means are taken from: some hundred rows, for a mean within a few hundredths."""

# Rows by the pages there are now, as the planner reckons: `reltuples` is as old as the last
# ANALYZE. Of a table that was never looked at: documents of some lines.
RECKONED = """
SELECT pg_relation_size(c.oid) / current_setting('block_size')::int
       * CASE WHEN c.relpages > 0 AND c.reltuples >= 0 THEN c.reltuples / c.relpages ELSE 8 END
FROM pg_class c WHERE c.oid = '{documents}'::regclass
"""
# Nothing that waits for a lock on the vectors: full text goes on without them.
_SIZE = """
SELECT ({reckoned})::int AS documents,
       pg_relation_size('{documents}'::regclass) / current_setting('block_size')::int AS pages,
       (SELECT relpages FROM pg_class WHERE oid = '{embeddings}'::regclass) AS vector_pages,
       (SELECT array_agg(c.relname::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = '{embeddings}'::regclass AND i.indisvalid
        AND i.indexprs IS NOT NULL)
       AS vector_indexes
"""
_COMMON = """
SELECT most_common_elems::text::text[] AS words, most_common_elem_freqs AS shares FROM pg_stats
WHERE schemaname = $1 AND tablename = $2 AND attname = 'tsv'
"""
_MEAN = """
SELECT avg(tokens)::float8 FROM {documents} TABLESAMPLE SYSTEM ($1) REPEATABLE (1)
"""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A large space as a whole; these are estimates."""

    documents: int
    vector_indexes: frozenset[str] = frozenset()
    vector_sample: float = 100.0
    """Percent of the vectors that tell how near any is to a question."""
    mean_tokens: float = 1.0
    common: Mapping[str, float] = field(default_factory=dict)
    """The share of documents that hold a word; one that is not named here is rarer than all that are."""

    def has_index(self, model: int) -> bool:
        """Tell whether there is an index over the vectors of this model."""
        return any(name.endswith(f"_hnsw_{model}") for name in self.vector_indexes)


async def read_corpus(held: Connection, scope: Scope) -> Corpus:
    """Return what is known about the space of `scope`, whatever its filters."""
    row = await held.fetchrow(scope.sql(_SIZE.replace("{reckoned}", RECKONED), 1))
    assert row is not None
    indexes = frozenset(row["vector_indexes"] or ())
    sample = _percent(row["vector_pages"])
    table = "memory_documents" if scope.store == "session" else "knowledge_documents"
    known = await held.fetchrow(_COMMON, schema_name(scope.agent_id), table)
    mean = await held.fetchval(scope.sql(_MEAN, 2), _percent(row["pages"]))
    # the last shares are not of words: the least, the greatest, that of NULL
    common = (
        dict(zip(known["words"], known["shares"], strict=False)) if known and known["words"] else {}
    )
    return Corpus(row["documents"], indexes, sample, max(mean or 1.0, 1.0), common)


def _percent(pages: int) -> float:
    return min(100.0, 100.0 * SAMPLED_PAGES / max(pages, 1))
