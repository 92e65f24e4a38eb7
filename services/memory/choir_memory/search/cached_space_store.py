"""Read a small space into memory, and search it there.

The statement that finds the terms of a query also checks, in the same snapshot, whether the space is still
what was read. So a document that was erased or changed is never found by an old vector.
"""

from dataclasses import replace

from choir_common.postgres.pool import Connection
from choir_memory.search.cached_space import CachedSpace, decode_space
from choir_memory.search.candidate_columns_store import CandidateColumns, quote_terms
from choir_memory.search.candidates import decode_occurrences
from choir_memory.search.full_scan_store import FEW_DOCUMENTS, FullScanResult, build_scan_result
from choir_memory.text.splitting import FIRST_SENTENCE_PART

# `{told}` depends on the time only by documents that end
_SESSION_END = "min(d.expires_at) FILTER (WHERE d.expires_at > now())"
_KNOWLEDGE_END = f"least({_SESSION_END}, min(d.valid_to) FILTER (WHERE d.valid_to > now()))"
_READ = f"""
WITH space AS MATERIALIZED (
    SELECT ({FEW_DOCUMENTS}) AND 2 * pg_relation_size('{{embeddings}}'::regclass) <= $2 AS small
)
SELECT space.small, pg_current_snapshot()::text AS snapshot,
       pg_postmaster_start_time() AS server_started_at,
       pg_relation_filenode('{{documents}}'::regclass) AS file, documents.*
FROM space LEFT JOIN LATERAL (
    SELECT {{documents_columns}}, {{end}} AS expires_at,
           array_send(array_agg(e.document_id IS NOT NULL)) AS has_vector,
           array_send(array_agg(e.part >= {FIRST_SENTENCE_PART}) FILTER (WHERE e.part IS NOT NULL))
               AS of_sentences,
           string_agg(public.halfvec_send(e.embedding), ''::bytea) AS vectors
    FROM {{documents}} d LEFT JOIN {{embeddings}} e ON e.document_id = d.id AND e.model = $1
    WHERE space.small AND {{told}}
) AS documents ON true
"""  # noqa: S608 our own names
_SEARCH = """
WITH {terms}, space AS MATERIALIZED (
    SELECT NOT {schema}.changed_since($2::text, $3::text::pg_snapshot)
           AND pg_postmaster_start_time() = $4::timestamptz
           AND pg_relation_filenode('{documents}'::regclass) = $5::oid
           AND ($6::timestamptz IS NULL OR now() < $6::timestamptz) AS current
)
SELECT space.current, held.* FROM space
LEFT JOIN LATERAL (
    SELECT {held_columns} FROM terms t JOIN {documents} d ON d.tsv @@ t.term
    WHERE space.current AND {told}
) AS held ON true
"""


async def read_space(
    connection: Connection, columns: CandidateColumns, max_bytes: int
) -> CachedSpace | None:
    """Return the space of `columns`; None if it is large or has no vectors.

    A table of vectors that needs more than `max_bytes` is large, too. There they have 16 bits, in memory 32.
    """
    assert columns.vector is not None
    model, dimensions = columns.vector.model, columns.vector.dimensions
    everything = replace(columns, vector=None, with_times=True)
    end = _SESSION_END if columns.scope.store == "session" else _KNOWLEDGE_END
    sql = everything.sql(_READ.replace("{end}", end), 3)
    row = await connection.fetchrow(sql, model, max_bytes, *everything.scope_arguments)
    if row is None or not row["small"] or not row["vectors"]:
        return None
    return decode_space(row, dimensions)


async def search_cached_space(
    connection: Connection, space: CachedSpace, columns: CandidateColumns
) -> FullScanResult | None:
    """Return what `scan_space` would return, or None if the space has changed since it was read."""
    assert columns.vector is not None
    version, cached = space.version, space.terms.find(columns.terms)
    row = await connection.fetchrow(
        columns.sql(_SEARCH, 7),
        quote_terms([term for term in columns.terms if term not in cached]),
        columns.scope.store,
        version.snapshot,
        version.server_started_at,
        version.file,
        version.expires_at,
        # of the wider scope alone: which documents are eligible is in memory
        *columns.scope.context_scope().arguments,
    )
    if row is None or not row["current"]:
        return None
    read = decode_occurrences(row, space.places)
    occurrences = space.terms.merge(columns.terms, cached, read)
    counts = occurrences.counts(len(space.documents.ids), len(columns.terms))
    cosines, whole_cosines = space.compute_cosines(columns.vector.value)
    candidates = replace(
        space.documents, cosines=cosines, whole_cosines=whole_cosines, counts=counts
    )
    return build_scan_result(candidates, occurrences, columns.terms)
