"""Statistics about a space without reading it: its size, and the frequency of its common words.

Called by `corpora` on a connection that may read the agent's schema. The figures come from Postgres'
catalogs and are updated by ANALYZE, which autovacuum runs, and upkeep (`growth`) for tables that
autovacuum missed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.postgres.pool import Connection
from choir_memory.schema.naming import schema_name
from choir_memory.search.scope_store import Scope

LARGE = 5_000
"""Number of documents from which a space is not read whole; reading takes two to three ms per thousand."""
SAMPLED_PAGES = 60
"""Table pages sampled for means: some hundred rows, which gives a mean within a few hundredths."""

# Estimates rows from the current number of pages, as the planner does: `reltuples` is as old as the last
# ANALYZE. Without statistics: 8 documents per page.
RECKONED = """
SELECT pg_relation_size(c.oid) / current_setting('block_size')::int
       * CASE WHEN c.relpages > 0 AND c.reltuples >= 0 THEN c.reltuples / c.relpages ELSE 8 END
FROM pg_class c WHERE c.oid = '{documents}'::regclass
"""
# Takes no lock on the vector tables that might wait: full text must work without them.
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
    """Estimated statistics of a large space."""

    documents: int
    vector_indexes: frozenset[str] = frozenset()
    vector_sample: float = 100.0
    """Percentage of vectors to sample for the mean similarity to a query."""
    mean_tokens: float = 1.0
    common: Mapping[str, float] = field(default_factory=dict)
    """Share of documents that contain a word; words that are missing here are rarer than all listed ones."""

    def has_index(self, model: int) -> bool:
        """Return whether there is a vector index for this model."""
        return any(name.endswith(f"_hnsw_{model}") for name in self.vector_indexes)


async def read_corpus(held: Connection, scope: Scope) -> Corpus:
    """Return the statistics of the space of `scope`, ignoring its filters."""
    row = await held.fetchrow(scope.sql(_SIZE.replace("{reckoned}", RECKONED), 1))
    assert row is not None
    indexes = frozenset(row["vector_indexes"] or ())
    sample = _percent(row["vector_pages"])
    table = "memory_documents" if scope.store == "session" else "knowledge_documents"
    known = await held.fetchrow(_COMMON, schema_name(scope.agent_id), table)
    mean = await held.fetchval(scope.sql(_MEAN, 2), _percent(row["pages"]))
    # the surplus shares at the end are the minimum, the maximum and the share of NULL
    common = (
        dict(zip(known["words"], known["shares"], strict=False)) if known and known["words"] else {}
    )
    return Corpus(row["documents"], indexes, sample, max(mean or 1.0, 1.0), common)


def _percent(pages: int) -> float:
    return min(100.0, 100.0 * SAMPLED_PAGES / max(pages, 1))
