"""Statistics about a space without reading it: its size, and the frequency of its common words.

The figures come from Postgres' catalogs and are cached for a short time. They are updated by ANALYZE, which
autovacuum runs, and `maintenance` for tables that autovacuum missed.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

from choir_common.postgres.pool import Connection
from choir_memory.schema.store import schema_name
from choir_memory.search.scope_store import SearchScope, Store

LARGE_SPACE_DOCUMENTS = 5_000
"""Number of documents from which a space is not read whole; reading takes two to three ms per thousand."""
SAMPLED_PAGES = 60
"""Table pages sampled for means: some hundred rows, which gives a mean within a few hundredths."""

# Estimates rows from the current number of pages, as the planner does: `reltuples` is as old as the last
# ANALYZE. Without statistics: 8 documents per page.
ESTIMATED_ROWS = """
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
class CorpusStatistics:
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


async def read_statistics(connection: Connection, scope: SearchScope) -> CorpusStatistics:
    """Return the statistics of the space of `scope`, ignoring its filters."""
    row = await connection.fetchrow(scope.sql(_SIZE.replace("{reckoned}", ESTIMATED_ROWS), 1))
    assert row is not None
    indexes = frozenset(row["vector_indexes"] or ())
    sample = _percent(row["vector_pages"])
    table = "memory_documents" if scope.store == "session" else "knowledge_documents"
    word_row = await connection.fetchrow(_COMMON, schema_name(scope.agent_id), table)
    mean = await connection.fetchval(scope.sql(_MEAN, 2), _percent(row["pages"]))
    # the surplus shares at the end are the minimum, the maximum and the share of NULL
    common = (
        dict(zip(word_row["words"], word_row["shares"], strict=False))
        if word_row and word_row["words"]
        else {}
    )
    return CorpusStatistics(row["documents"], indexes, sample, max(mean or 1.0, 1.0), common)


def _percent(pages: int) -> float:
    return min(100.0, 100.0 * SAMPLED_PAGES / max(pages, 1))


CACHE_TTL_S = 60.0
"""Seconds for which statistics are cached; they change slowly."""
MAX_CACHED_SPACES = 256
"""Maximum number of cached spaces; the statistics of one take about 100 KB."""


class CorpusCache:
    """Cache of statistics per space, read again after a minute."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, Store], tuple[float, CorpusStatistics]] = (
            OrderedDict()
        )

    def find(self, scope: SearchScope) -> CorpusStatistics | None:
        """Return the cached statistics of the space of `scope`; only large spaces have any."""
        entry = self._entries.get((scope.agent_id, scope.store))
        if entry is None or time.monotonic() - entry[0] >= CACHE_TTL_S:
            return None
        return entry[1]

    async def of(self, connection: Connection, scope: SearchScope) -> CorpusStatistics:
        """Return the statistics of the space of `scope`."""
        name = (scope.agent_id, scope.store)
        now = time.monotonic()
        if (entry := self._entries.get(name)) is not None and now - entry[0] < CACHE_TTL_S:
            self._entries.move_to_end(name)
            return entry[1]
        corpus = await read_statistics(connection, scope)
        self._entries[name] = (now, corpus)
        self._entries.move_to_end(name)
        if len(self._entries) > MAX_CACHED_SPACES:
            self._entries.popitem(last=False)
        return corpus
